"""The child process of `model[:PATH]`: holds a transformers model and answers requests, one JSON line each way.

The only file of the language model proposers that imports torch. It runs as `python -m autotriton.propose.generate`:
the first line says which model, every further line is one request, answered by a line per prompt, as they end, and a
last one. It ends when its standard input does. Qwen2- and Llama-type models run in `decoding/`, others by `generate`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from autotriton import machine
from autotriton.adapters import attached, base_of, opened
from autotriton.line_cache import cache_folder

CHILD = "autotriton.propose.generate"
_GPU_BATCH, _CPU_BATCH = 256, 8
_CPU_BYTES_PER_S = 20e9
"""Weights a CPU reads from its memory: every token takes all of them once."""
_PATIENT_S = 60.0
Answer = dict[str, Any]


class Generator:
    """A loaded model and its tokenizer."""

    def __init__(self, path: str, device: str) -> None:
        import torch

        from autotriton.propose.decoding.weights import unsupported

        self.torch = torch
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer, model = _load(path)
        if device == "cpu" and not (model.dtype is torch.bfloat16 and machine.multiplies_bf16()):
            model = model.float()  # half precision is emulated, and slow, on most CPUs
        self.model = model.to(device).eval()
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.note = unsupported(self.model)
        """Why the fast decoder is not used; None if it is."""
        self.slow = slow(model.get_memory_footprint()) if device == "cpu" else None
        """Why an answer will take long; None if it will not."""
        self._decoder: Any = None
        self._usual_batch = _CPU_BATCH if device == "cpu" else _GPU_BATCH

    def answers(self, request: dict[str, Any]) -> Iterator[Answer]:
        """One answer per prompt, each with the `index` of its prompt, as they end."""
        prompts = self._encoded(request["prompts"])
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        rooms = {}
        for index, tokens in enumerate(prompts):
            room = request["max_tokens"] if limit is None else min(request["max_tokens"], limit - len(tokens))
            if room >= 1:
                rooms[index] = room
            else:
                text = f"the prompt has {len(tokens)} tokens and the model takes {limit}"
                yield {"index": index, "error": text, "prompt_tokens": len(tokens)}
        yield from self._generated(prompts, rooms, request) if self.note else self._decoded(prompts, rooms, request)

    def _encoded(self, prompts: list[str]) -> list[list[int]]:
        """Through the chat template; a base model without one gets the prompt as it is."""
        tokenizer = self.tokenizer
        if not tokenizer.chat_template:
            return list(tokenizer(prompts, return_token_type_ids=False)["input_ids"])
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        # The template has written the special tokens already.
        return list(tokenizer(texts, add_special_tokens=False, return_token_type_ids=False)["input_ids"])

    def _decoded(self, prompts: list[list[int]], rooms: dict[int, int], request: dict[str, Any]) -> Iterator[Answer]:
        """By our own decoder; the batch is halved while it does not fit into memory."""
        from autotriton.propose.decoding.decoder import Decoder
        from autotriton.propose.decoding.records import Request

        if self._decoder is None:
            self._decoder = Decoder(self.model, share=True)
        self._decoder.batch = request.get("batch") or self._usual_batch
        left = dict(rooms)
        while left:
            order = list(left)
            asked = [
                Request(
                    prompt=tuple(prompts[index]),
                    max_tokens=left[index],
                    seed=_seed(request["seeds"][index]),
                    temperature=request["temperature"],
                    top_p=request["top_p"],
                )
                for index in order
            ]
            try:
                for result in self._decoder.decode(asked, self._ends(), request["timeout_s"]):
                    index = order[result.index]
                    del left[index]
                    yield self._answer(index, list(result.tokens), len(prompts[index]))
            except self.torch.OutOfMemoryError:
                if self._decoder.batch == 1:
                    raise
                self._decoder.batch //= 2
            finally:
                # Kernels may be judged on the same GPU now, and need the memory.
                self._decoder.release()

    def _generated(self, prompts: list[list[int]], rooms: dict[int, int], request: dict[str, Any]) -> Iterator[Answer]:
        """By transformers' `generate`, one batch after another; a batch is halved while it does not fit."""
        size = request.get("batch") or self._usual_batch
        left = list(rooms)
        while left:
            batch = left[:size]
            try:
                found = self._batch([prompts[index] for index in batch], min(rooms[index] for index in batch), request)
            except self.torch.OutOfMemoryError:
                if len(batch) == 1:
                    raise
                self.torch.cuda.empty_cache()
                size = len(batch) // 2
                continue
            left = left[size:]
            for index, tokens in zip(batch, found, strict=True):
                yield self._answer(index, tokens, len(prompts[index]))

    def _batch(self, prompts: list[list[int]], room: int, request: dict[str, Any]) -> list[list[int]]:
        inputs = self.tokenizer.pad({"input_ids": prompts}, padding=True, return_tensors="pt").to(self.model.device)
        if request["seeds"][0] is not None:
            self.torch.manual_seed(request["seeds"][0])
        greedy = request["temperature"] == 0
        sampling = {"temperature": request["temperature"], "top_p": request["top_p"], "top_k": 0}
        with self.torch.inference_mode():
            whole = self.model.generate(
                **inputs,
                max_new_tokens=room,
                max_time=request["timeout_s"],
                pad_token_id=self.tokenizer.pad_token_id,
                do_sample=not greedy,
                # What a checkpoint's own settings add would make the two ways of decoding draw differently.
                repetition_penalty=1.0,
                **({"temperature": None, "top_p": None, "top_k": None} if greedy else sampling),
            )
        return [row.tolist() for row in whole[:, inputs["input_ids"].shape[1] :]]

    def _ends(self) -> list[int]:
        ends = self.model.generation_config.eos_token_id
        found = [ends] if isinstance(ends, int) else list(ends or ())
        eos = self.tokenizer.eos_token_id
        return found if eos is None or eos in found else [*found, eos]

    def _answer(self, index: int, tokens: list[int], prompt_tokens: int) -> Answer:
        """The text up to the first end token; what follows it in a batch is padding."""
        ends = self._ends()
        count = next((number for number, token in enumerate(tokens, start=1) if token in ends), len(tokens))
        text = self.tokenizer.decode(tokens[:count], skip_special_tokens=True)
        return {"index": index, "text": text, "prompt_tokens": prompt_tokens, "completion_tokens": count}


def slow(weights_bytes: float) -> str | None:
    """What to expect without a GPU, where an answer of a thousand tokens takes more than a minute."""
    seconds = 1000 * weights_bytes / _CPU_BYTES_PER_S
    if seconds < _PATIENT_S:
        return None
    size, minutes = weights_bytes / 1e9, seconds / 60
    return f"without a GPU its {size:.1f} GB make an answer of 1,000 tokens take about {minutes:.0f} min"


def _seed(seed: int | None) -> int:
    return int.from_bytes(os.urandom(8), "little") if seed is None else int(seed)


def _load(path: str) -> tuple[Any, Any]:
    """Tokenizer and model. An adapter goes onto the base its folder names, and may bring a tokenizer of its own."""
    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    config = Path(path, "adapter_config.json")
    if not config.is_file():
        name, extra = _source(path)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **extra)
        return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(name, dtype="auto", **extra)
    base = str(base_of(Path(path)))
    path = str(opened(Path(path), base, cache_folder()))
    tokenizer, model = _load(base)
    if Path(path, "tokenizer_config.json").is_file():
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    return tokenizer, attached(model, path)


def _source(path: str) -> tuple[str, dict[str, str]]:
    """What `from_pretrained` is given: a folder or hub name, or a folder and the GGUF file in it."""
    if path.endswith(".gguf"):
        return str(Path(path).parent), {"gguf_file": Path(path).name}
    return path, {}


def main() -> None:
    # Libraries print; what reaches the parent must be ours alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    generator: Generator | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if generator is None:
                generator = Generator(request["path"], request["device"])
                _say(answers, {"loaded": True, "note": generator.note, "slow": generator.slow})
            else:
                for answer in generator.answers(request):
                    _say(answers, {"loaded": True, "answer": answer})
                _say(answers, {"loaded": True, "end": True})
        except Exception as error:  # noqa: BLE001 - foreign code (weights, kernels) may raise anything
            _say(answers, {"loaded": generator is not None, "error": f"{type(error).__name__}: {error}"})


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
