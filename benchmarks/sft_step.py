"""A training step's forward and backward pass with peft's adapted layers and with ours, in one run: tokens per second,
memory, and how far the gradients are apart.

    python benchmarks/sft_step.py --model models/qwen2.5-coder-1.5b [--rows 16] [--row-tokens 1024] [--json FILE]

The weights are random, in the shape that the folder's config.json names: only it has to be there. Rows stand packed
behind each other in one sequence, as in `train sft`; the loss counts every token.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from trl.trainer.utils import add_fused_lm_head

from autotriton.train import attention, lora, weights


def main() -> int:
    args = _arguments()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    model = _model(args, device)
    batch = _batch(args, model.config.vocab_size, device)
    result: dict[str, Any] = {"tokens": args.rows * args.row_tokens, "rank": args.rank}
    gradients = {}
    for name in ("peft", "ours", "liger") if args.liger else ("peft", "ours"):
        if name == "ours":
            result["layers"] = lora.fuse(model)
        if name == "liger":  # on top of ours
            weights.liger(model.get_base_model())
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        seconds = [_step(model, batch, device) for _ in range(args.steps + 2)][2:]
        gradients[name] = {key: p.grad.double() for key, p in model.named_parameters() if p.grad is not None}
        peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
        per_second = result["tokens"] / statistics.median(seconds)
        result[name] = {"tokens_per_s": round(per_second), "peak_gib": peak, "seconds": seconds}
        print(f"{name}: {per_second:,.0f} tokens/s" + (f", {peak:.1f} GiB" if peak else ""), flush=True)
    result["ratio"] = result["ours"]["tokens_per_s"] / result["peft"]["tokens_per_s"]
    result["apart"] = max(
        float((gradients["ours"][key] - wanted).norm() / wanted.norm().clamp(min=1e-30))
        for key, wanted in gradients["peft"].items()
        if "lora_B" in key  # at the start A has no gradient: B is zero
    )
    print(f"ratio {result['ratio']:.2f}; gradients apart by at most {result['apart']:.1e}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _model(args: argparse.Namespace, device: torch.device) -> Any:
    attention.register()
    config = transformers.AutoConfig.from_pretrained(args.model)
    torch.manual_seed(0)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(
            config,
            dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
            attn_implementation=attention.NAME if device.type == "cuda" else "sdpa",
        )
    add_fused_lm_head(model)
    wanted = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return peft.get_peft_model(model, wanted).train()


def _batch(args: argparse.Namespace, words: int, device: torch.device) -> dict[str, Any]:
    count = args.rows * args.row_tokens
    tokens = torch.randint(0, words, (1, count), device=device)
    places = torch.arange(args.row_tokens, device=device).repeat(args.rows)[None]
    batch = {"input_ids": tokens, "labels": tokens.masked_fill(places == 0, -100), "position_ids": places}
    if device.type == "cuda":
        ends = torch.arange(0, count + 1, args.row_tokens, device=device, dtype=torch.int32)
        batch |= {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}
        batch |= {"max_length_q": args.row_tokens, "max_length_k": args.row_tokens}
    return batch


def _step(model: Any, batch: dict[str, Any], device: torch.device) -> float:
    model.zero_grad(set_to_none=True)
    _wait(device)
    started = time.perf_counter()
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        loss = model(**batch, fused_lm_head=True).loss
    loss.backward()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", type=Path, default=Path("models/qwen2.5-coder-1.5b"))
    made.add_argument("--rows", type=int, default=16)
    made.add_argument("--row-tokens", type=int, default=1024)
    made.add_argument("--rank", type=int, default=24)
    made.add_argument("--steps", type=int, default=5)
    made.add_argument("--liger", action="store_true", help="also with liger-kernel's norm, rotation and gate")
    made.add_argument("--json", type=Path)
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(main())
