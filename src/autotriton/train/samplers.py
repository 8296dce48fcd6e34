"""Which sampler serves a model."""

from __future__ import annotations

from typing import Any

from autotriton.train.sampling import PlainSampler, Sampler


def sampler_for(model: Any, tokenizer: Any) -> Sampler:
    """The fastest one that supports the model where it lies."""
    return PlainSampler(model, tokenizer)
