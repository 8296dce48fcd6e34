"""Cheap wrong answers, and inputs with foreign content: what a task worth judging must tell from the right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from autotriton.judge.answers import Expected
from autotriton.judge.measure import spans
from autotriton.judge.program import Inputs, Leaf

Impostor = Callable[[Tensor, Tensor], Tensor | None]
"""A wrong answer made of the right one and of another draw's; None where it does not apply."""


def forge_all(expected: Expected, other: list[Leaf], forge: Impostor) -> list[Leaf] | None:
    """Every tensor of the answer forged; None where that is not possible, so nobody could submit it."""
    forged: list[Leaf] = []
    done = False
    for answer, leaf in zip(expected.outputs, other, strict=True):
        value = answer.value
        if not isinstance(value, Tensor) or not isinstance(leaf, Tensor) or value.shape != leaf.shape:
            forged.append(value)
            continue
        new = forge(value, leaf)
        done |= new is not None
        forged.append(value if new is None else new)
    return forged if done else None


def _mean(right: Tensor, other: Tensor) -> Tensor | None:
    if right.numel() < 2:
        return None
    if right.dtype is torch.bool or right.is_complex():
        return torch.zeros_like(right)
    total, count = 0.0, 0
    flat = right.reshape(-1)
    for start, stop in spans(flat.numel(), 1):
        piece = flat[start:stop].double()
        usable = torch.isfinite(piece)
        total, count = total + float(piece.masked_fill_(~usable, 0.0).sum()), count + int(usable.sum())
    return torch.full_like(right, total / count if count else 0.0)


def _half(right: Tensor, filler: Tensor | None) -> Tensor:
    """The first half right, the second half filled with something else, or with zeros."""
    result = right.clone()
    flat = result if result.is_contiguous() else result.contiguous()
    end = flat.view(-1)[flat.numel() // 2 :]
    if filler is None:
        end.zero_()
    else:
        end.copy_(filler.reshape(-1)[flat.numel() // 2 :])
    return result if flat is result else result.copy_(flat)


def _rolled(right: Tensor, other: Tensor) -> Tensor | None:
    """The first row last: without another copy, for this may be gigabytes."""
    if not right.dim() or right.shape[0] < 2:
        return None
    result = torch.empty_like(right)
    result[1:].copy_(right[:-1])
    result[:1].copy_(right[-1:])
    return result


IMPOSTORS: dict[str, Impostor] = {
    "an answer of zeros": lambda right, other: torch.zeros_like(right),
    "the mean of the answer everywhere": _mean,
    "the answer for another draw": lambda right, other: other,
    "the answer with its rows shifted by one": _rolled,
    "half an answer, the rest from another draw": lambda right, other: _half(right, other),
    "half an answer, the rest zeros": lambda right, other: _half(right, None),
}


def named_leaves(inputs: Inputs) -> list[tuple[str, Leaf]]:
    """Input leaves with readable names, in the order they are passed."""
    pairs, _ = pytree.tree_flatten_with_path((inputs.args, inputs.kwargs))
    return [(f"input {_path(path)}", leaf) for path, leaf in pairs]


def _path(path: tuple[Any, ...]) -> str:
    """`0`, `1['mask']` or `x[2]`: position or keyword first, then what is inside it."""
    first = path[1]
    return f"{getattr(first, 'idx', getattr(first, 'key', first))}{pytree.keystr(path[2:])}"


def swap(inputs: Inputs, other: Inputs, place: int, axis: int | None) -> Inputs | None:
    """`inputs` with one leaf from `other`, or its second half along an axis; None where the two do not fit."""
    leaves, spec = pytree.tree_flatten((inputs.args, inputs.kwargs))
    foreign = pytree.tree_leaves((other.args, other.kwargs))
    if len(foreign) != len(leaves) or not alike(leaves[place], foreign[place]):
        return None
    leaf = leaves[place]
    if axis is None:
        leaves[place] = foreign[place]
    else:
        start = leaf.shape[axis] // 2
        kept = leaf.narrow(axis, 0, start)
        leaves[place] = leaf.clone().copy_(
            torch.cat([kept, foreign[place].narrow(axis, start, leaf.shape[axis] - start)], axis)
        )
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return Inputs(tuple(args), dict(kwargs))


def alike(one: Leaf, two: Leaf) -> bool:
    return isinstance(one, Tensor) and isinstance(two, Tensor) and one.shape == two.shape and one.dtype == two.dtype


def equal(one: Leaf, two: Leaf) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        if one.shape != two.shape or torch.equal(one, two):
            return one.shape == two.shape
        return one.is_floating_point() and bool(((one == two) | (one.isnan() & two.isnan())).all())
    return type(one) is type(two) and one == two
