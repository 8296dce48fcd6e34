"""Answers for many prompts at once, as token ids with their log-probabilities.

`Sampler` is what training asks for; `PlainSampler` fulfils it with `generate` for any model transformers knows. torch
is imported inside functions: configs and rewards are read on machines without it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn."""

    max_tokens: int
    temperature: float = 1.0
    """0: the likeliest token each time."""
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """One sampled answer; its last token is an end token unless it ran out of room."""

    tokens: list[int]
    logprobs: list[float]
    """Of each token under the distribution it was drawn from."""


Finished = Callable[[int, Answer], None]


class Sampler(Protocol):
    def sample(self, prompts: Sequence[Sequence[int]], how: Sampling, finished: Finished) -> None:
        """Calls `finished(index, answer)` once per prompt, as soon as that answer is whole."""
        ...


class PlainSampler:
    """`generate`, batch by batch. Slow on a GPU, right everywhere."""

    def __init__(self, model: Any, tokenizer: Any, batch: int = 16) -> None:
        self.model, self.tokenizer, self.batch = model, tokenizer, batch
        self._ends = end_tokens(model, tokenizer)

    def sample(self, prompts: Sequence[Sequence[int]], how: Sampling, finished: Finished) -> None:
        torch: Any = importlib.import_module("torch")
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        training = self.model.training
        self.model.eval()
        try:
            # The trainer's own random numbers go on as if nobody had sampled.
            with torch.random.fork_rng(devices=devices), torch.no_grad():
                torch.manual_seed(how.seed)
                for start in range(0, len(prompts), self.batch):
                    self._batch(torch, prompts[start : start + self.batch], start, how, finished)
        finally:
            self.model.train(training)

    def _batch(self, torch: Any, prompts: Sequence[Sequence[int]], start: int, how: Sampling, done: Finished) -> None:
        longest = max(map(len, prompts))
        pad = self.tokenizer.pad_token_id
        rows = [[pad] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        masks = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        greedy = how.temperature == 0
        sampling: dict[str, Any] = {"temperature": how.temperature, "top_p": how.top_p, "top_k": 0}
        if greedy:
            sampling = dict.fromkeys(sampling)
        whole = self.model.generate(
            input_ids=torch.tensor(rows, device=self.model.device),
            attention_mask=torch.tensor(masks, device=self.model.device),
            max_new_tokens=how.max_tokens,
            do_sample=not greedy,
            pad_token_id=pad,
            eos_token_id=sorted(self._ends),
            return_dict_in_generate=True,
            output_logits=True,
            **sampling,
        )
        scale = 1.0 if greedy else how.temperature
        logprobs = torch.stack([step.float().div(scale).log_softmax(-1) for step in whole.logits], dim=1)
        tokens = whole.sequences[:, longest:]
        chosen = logprobs.gather(2, tokens.unsqueeze(2)).squeeze(2)
        for index, (row, values) in enumerate(zip(tokens.tolist(), chosen.tolist(), strict=True)):
            count = next((number for number, token in enumerate(row, start=1) if token in self._ends), len(row))
            done(start + index, Answer(row[:count], values[:count]))


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Every token that ends an answer, by the model's word and the tokenizer's."""
    ends = model.generation_config.eos_token_id
    found = {ends} if isinstance(ends, int) else set(ends or ())
    return found | ({tokenizer.eos_token_id} - {None})


def encoded(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    """A conversation as the model sees it, up to where its answer begins."""
    return list(tokenizer(written(tokenizer, messages), add_special_tokens=not tokenizer.chat_template)["input_ids"])


def written(tokenizer: Any, messages: Sequence[dict[str, str]]) -> str:
    """A conversation as text: up to where an answer begins, or with the answer and its end."""
    answered = messages[-1]["role"] == "assistant"
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=not answered)
        return str(text)
    return "\n\n".join(message["content"] for message in messages) + (tokenizer.eos_token if answered else "")
