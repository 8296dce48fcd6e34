"""What is asked of the decoder and what comes back. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    TIME = "time"


@dataclass(frozen=True)
class Request:
    """One answer wanted. Equal requests give equal answers, whatever else is in the batch."""

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int = 0
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0: no limit. Applied before `top_p`, as in transformers."""

    def __post_init__(self) -> None:
        if not self.prompt or self.max_tokens < 1:
            raise ValueError("a request needs a prompt and room for one token")
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ValueError(f"no such sampling: {self.temperature}, {self.top_p}, {self.top_k}")


@dataclass(frozen=True)
class Result:
    index: int
    """Of the request."""
    tokens: tuple[int, ...]
    """With the stop token, if there was one."""
    logprobs: tuple[float, ...]
    """Under softmax(logits / temperature) over the whole vocabulary, as a trainer computes them; greedy: at 1."""
    reason: Reason
