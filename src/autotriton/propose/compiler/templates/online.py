"""Softmax over rows too long for registers: the largest value and the sum of exponentials out of one reading.

Every lane keeps the largest value it has seen and the sum of exponentials relative to it; when the largest grows, the
sum shrinks by the same factor. Lanes are joined at the end. Reading a row once less is a quarter of the traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.fx

from autotriton.propose.compiler.templates.expressions import compute_type, name_of
from autotriton.propose.compiler.templates.reducers import Lines, Reducer, is_in_softmax

_NONE = 'float("-inf")'


def softmax_pair(reductions: Sequence[torch.fx.Node]) -> tuple[torch.fx.Node, torch.fx.Node] | None:
    """`amax(x)` and `sum(exp(x - amax(x)))`, where these two are all there is."""
    if len(reductions) != 2 or [name_of(node) for node in reductions] != ["amax", "sum"]:
        return None
    largest, total = reductions
    exp = total.args[0]
    if not is_in_softmax(largest) or not isinstance(exp, torch.fx.Node) or name_of(exp) != "exp":
        return None
    shifted = exp.args[0]
    if not isinstance(shifted, torch.fx.Node) or name_of(shifted) != "sub":
        return None
    single = compute_type(total.meta["val"].dtype) == compute_type(torch.float32)
    return (largest, total) if single and shifted.args[:2] == (largest.args[0], largest) else None


def total_of(state: str) -> str:
    """The name of the sum, given that of the largest value."""
    return f"{state}_total"


def online(largest: Reducer) -> Reducer:
    """The reducer of the largest value, which sums up the exponentials beside it."""

    def step(s: str, v: str, mask: str) -> Lines:
        return [
            f"{s}_new = tl.maximum({s}_best, tl.where({mask}, {v}, {_NONE}))",
            f"{s}_shift = tl.where({s}_new == {_NONE}, 0.0, {s}_new)",
            f"{s}_terms = tl.where({mask}, tl.exp({v} - {s}_shift), 0.0)",
            f"{s}_sum = {s}_sum * tl.exp({s}_best - {s}_shift) + {s}_terms",
            f"{s}_best = {s}_new",
        ]

    def finish(s: str) -> Lines:
        return [
            *largest.finish(s),
            f"{s}_shift = tl.where({s} == {_NONE}, 0.0, {s})",
            f"{total_of(s)} = tl.sum({s}_sum * tl.exp({s}_best - {s}_shift), axis=1, keep_dims=True)",
        ]

    return replace(
        largest,
        start=lambda s, shape: [*largest.start(s, shape), f"{s}_sum = tl.zeros({shape}, tl.float32)"],
        step=step,
        finish=finish,
    )
