"""Tokens per second of our decoder and of transformers' `generate`, in one run, and whether they say the same.

    python benchmarks/decode.py --model models/qwen2.5-coder-1.5b [--batch 256] [--tokens 1024] [--json FILE]

Meant for a GPU; on a CPU it runs too, with small numbers. Every answer has exactly `--tokens` tokens (no stop token),
so both do the same work. `generate` may be timed on less where it would take minutes (`--generate-batch`,
`--generate-tokens`): its tokens per second are then those of that smaller run. Identity is checked in greedy decoding
on `--sample` prompts; where the two differ, the result says at which token and how far apart the two choices were. In
`--dtype float32` rounding leaves no room for that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from autotriton.propose.decoding.decoder import Decoder
from autotriton.propose.decoding.records import Request

TEXT = "Write a Triton kernel that adds two vectors, {number} elements each, and explain every line of it. "


def main() -> int:
    args = _arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=getattr(torch, args.dtype or ("bfloat16" if device == "cuda" else "float32"))
    )
    model = model.to(device).eval()
    prompts = [_prompt(tokenizer, number, args.prompt) for number in range(max(args.batch, args.sample))]
    decoder = Decoder(model, batch=args.batch, share=True)
    result: dict[str, Any] = {
        "model": str(args.model),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "triton": _triton()},
        "dtype": str(model.dtype),
        "batch": args.batch,
        "prompt_tokens": args.prompt,
        "tokens": args.tokens,
        "greedy": _ours(decoder, prompts[: args.batch], args.tokens, temperature=0.0),
        "sampled": _ours(decoder, prompts[: args.batch], args.tokens, temperature=0.7),
    }
    speeds = [result[name]["tokens_per_s"] for name in ("greedy", "sampled")]
    _say(f"ours: {speeds[0]:,.0f} tokens/s greedy, {speeds[1]:,.0f} sampled")
    result["identity"] = _identity(model, decoder, prompts[: args.sample], args.sample_tokens)
    _say(f"identical: {result['identity']['identical']} of {result['identity']['prompts']}")
    decoder.release()
    if not args.no_generate:
        count = min(args.generate_batch or args.batch, args.batch)
        result["generate"] = _theirs(model, prompts[:count], args.generate_tokens or args.tokens)
        result["ratio"] = result["greedy"]["tokens_per_s"] / result["generate"]["tokens_per_s"]
        _say(f"generate: {result['generate']['tokens_per_s']:,.0f} tokens/s; ratio {result['ratio']:.1f}")
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], help="by default bfloat16 on a GPU")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--sample", type=int, default=8, help="prompts compared in greedy decoding")
    parser.add_argument("--sample-tokens", type=int, default=128)
    parser.add_argument("--generate-batch", type=int, default=None, help="smaller batch for `generate`")
    parser.add_argument("--generate-tokens", type=int, default=None, help="fewer tokens for `generate`")
    parser.add_argument("--no-generate", action="store_true", help="leave `generate`'s time out")
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


def _prompt(tokenizer: Any, number: int, length: int) -> tuple[int, ...]:
    tokens = tokenizer(TEXT.format(number=number))["input_ids"]
    return tuple((tokens * (length // len(tokens) + 1))[:length])


def _ours(decoder: Decoder, prompts: list[tuple[int, ...]], tokens: int, temperature: float) -> dict[str, float]:
    requests = [
        Request(prompt, tokens, seed=seed, temperature=temperature, top_p=0.95 if temperature else 1.0)
        for seed, prompt in enumerate(prompts)
    ]
    # Compiles the kernels and captures the graph of this batch and cache: once per process, not per call.
    started = time.perf_counter()
    first = iter(decoder.decode(requests, timeout_s=0.0))
    next(first)
    first.close()
    _wait()
    preparing_s = time.perf_counter() - started
    started = time.perf_counter()
    results = decoder.all(requests)
    _wait()
    seconds = time.perf_counter() - started
    count = sum(len(result.tokens) for result in results)
    assert count == len(prompts) * tokens
    return {"tokens_per_s": count / seconds, "seconds": seconds, "tokens": count, "preparing_s": preparing_s}


@torch.inference_mode()
def _theirs(model: Any, prompts: list[tuple[int, ...]], tokens: int) -> dict[str, float]:
    inputs = torch.tensor(prompts, device=model.device)
    _generate(model, inputs, 4)
    _wait()
    started = time.perf_counter()
    _generate(model, inputs, tokens)
    _wait()
    seconds = time.perf_counter() - started
    count = len(prompts) * tokens
    return {"tokens_per_s": count / seconds, "seconds": seconds, "tokens": count, "batch": len(prompts)}


def _generate(model: Any, inputs: torch.Tensor, tokens: int) -> torch.Tensor:
    return model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        repetition_penalty=1.0,
        pad_token_id=0,
    )[:, inputs.shape[1] :]


@torch.inference_mode()
def _identity(model: Any, decoder: Decoder, prompts: list[tuple[int, ...]], tokens: int) -> dict[str, Any]:
    """Both without stop tokens. A difference after the first is a consequence of it, so only the first is shown."""
    ends = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = None
    theirs = _generate(model, torch.tensor(prompts, device=model.device), tokens).tolist()
    model.generation_config.eos_token_id = ends
    ours = decoder.all([Request(prompt=prompt, max_tokens=tokens, temperature=0.0) for prompt in prompts])
    differences = []
    for number, (expected, result) in enumerate(zip(theirs, ours, strict=True)):
        pairs = enumerate(zip(expected, result.tokens, strict=True))
        place = next((place for place, (theirs_, ours_) in pairs if theirs_ != ours_), None)
        if place is not None:
            start = torch.tensor([[*prompts[number], *expected[:place]]], device=model.device)
            logits = model(start).logits[0, -1].float()
            gap = float(logits[expected[place]] - logits[result.tokens[place]])
            differences.append({"prompt": number, "token": place, "logit_gap": gap})
    return {"prompts": len(prompts), "identical": len(prompts) - len(differences), "differences": differences}


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
