"""The child process of `model[:PATH]`: holds a transformers model and answers requests, one JSON line each way.

The only file of the language model proposers that imports torch. It runs as `python -m autotriton.propose.generate`:
the first line says which model, every further line is one batch. It ends when its standard input does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

CHILD = "autotriton.propose.generate"


class Generator:
    """A loaded model and its tokenizer."""

    def __init__(self, path: str, device: str) -> None:
        import torch

        self.torch = torch
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        # Half precision is emulated, and slow, on most CPUs.
        self.tokenizer, model = _load(path, torch.float32 if device == "cpu" else "auto")
        self.model = model.to(device).eval()
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token

    def answers(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """One answer per prompt; the batch is halved while it does not fit into memory."""
        prompts: list[str] = request["prompts"]
        try:
            return self._batch(prompts, request)
        except self.torch.OutOfMemoryError:
            if len(prompts) == 1:
                raise
        self.torch.cuda.empty_cache()
        middle = len(prompts) // 2
        halves = (prompts[:middle], prompts[middle:])
        return [answer for half in halves for answer in self.answers({**request, "prompts": half})]

    def _batch(self, prompts: list[str], request: dict[str, Any]) -> list[dict[str, Any]]:
        inputs = self._encoded(prompts).to(self.model.device)
        length = int(inputs["input_ids"].shape[1])
        if request["seed"] is not None:
            self.torch.manual_seed(request["seed"])
        with self.torch.inference_mode():
            whole = self.model.generate(**inputs, **self._options(request, length))
        counts = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._answer(row[length:].tolist(), count) for row, count in zip(whole, counts, strict=True)]

    def _encoded(self, prompts: list[str]) -> Any:
        """Through the chat template; a base model without one gets the prompt as it is."""
        tokenizer = self.tokenizer
        if not tokenizer.chat_template:
            return tokenizer(prompts, padding=True, return_tensors="pt", return_token_type_ids=False)
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        # The template has written the special tokens already.
        return tokenizer(
            texts, padding=True, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False
        )

    def _options(self, request: dict[str, Any], length: int) -> dict[str, Any]:
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        room = request["max_tokens"] if limit is None else min(request["max_tokens"], limit - length)
        if room < 1:
            raise ValueError(f"the prompt has {length} tokens and the model takes {limit}")
        sampling = {"temperature": request["temperature"], "top_p": request["top_p"]}
        greedy = {"temperature": None, "top_p": None, "top_k": None}
        return {
            "max_new_tokens": room,
            "max_time": request["timeout_s"],
            "pad_token_id": self.tokenizer.pad_token_id,
            "do_sample": request["temperature"] > 0,
            **(sampling if request["temperature"] > 0 else greedy),
        }

    def _answer(self, tokens: list[int], prompt_tokens: int) -> dict[str, Any]:
        """The text up to the first end token; what follows it in a batch is padding."""
        ends = self.model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or ())
        ends.add(self.tokenizer.eos_token_id)
        count = next((number for number, token in enumerate(tokens, start=1) if token in ends), len(tokens))
        text = self.tokenizer.decode(tokens[:count], skip_special_tokens=True)
        return {"text": text, "prompt_tokens": int(prompt_tokens), "completion_tokens": count}


def _load(path: str, dtype: Any) -> tuple[Any, Any]:
    """Tokenizer and model. An adapter goes onto the base its folder names, and may bring a tokenizer of its own."""
    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    config = Path(path, "adapter_config.json")
    if not config.is_file():
        name, extra = _source(path)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **extra)
        return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **extra)
    base = str(json.loads(config.read_text(encoding="utf-8"))["base_model_name_or_path"])
    tokenizer, model = _load(base, dtype)
    if Path(path, "tokenizer_config.json").is_file():
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    return tokenizer, importlib.import_module("peft").PeftModel.from_pretrained(model, path)


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
                _say(answers, {"loaded": True})
            else:
                _say(answers, {"loaded": True, "answers": generator.answers(request)})
        except Exception as error:  # noqa: BLE001 - foreign code (weights, kernels) may raise anything
            _say(answers, {"loaded": generator is not None, "error": f"{type(error).__name__}: {error}"})


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
