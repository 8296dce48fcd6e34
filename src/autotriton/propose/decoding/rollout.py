"""Completions in the form TRL's `rollout_func` returns: token ids and log-probabilities, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from autotriton.propose.decoding.decoder import Decoder
from autotriton.propose.decoding.records import Reason, Request


class Rollouts(TypedDict):
    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]]
    truncated: list[bool]
    """Ended by the length limit and not by a stop token: an extra field, which reward functions are given too."""


def rollouts(
    decoder: Decoder,
    prompt_ids: Sequence[Sequence[int]],
    *,
    stops: Sequence[int],
    max_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
) -> Rollouts:
    """One completion per prompt (a group's repeated prompt is read once). Number i is drawn with seed + i."""
    requests = [
        Request(tuple(prompt), max_tokens, seed=seed + number, temperature=temperature, top_p=top_p, top_k=top_k)
        for number, prompt in enumerate(prompt_ids)
    ]
    results = decoder.all(requests, stops)
    return {
        "prompt_ids": [list(request.prompt) for request in requests],
        "completion_ids": [list(result.tokens) for result in results],
        "logprobs": [list(result.logprobs) for result in results],
        "truncated": [result.reason is not Reason.STOP for result in results],
    }
