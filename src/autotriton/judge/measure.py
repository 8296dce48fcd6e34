"""How large a tensor or an error is, and what honest arithmetic loses: sizes over whole tensors and over slices.

Must stay true: a tensor of any size is looked at in chunks, so measuring never needs more than a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from autotriton.judge.program import Leaf

CHUNK = 1 << 26
"""Elements looked at in one go: 64 Mi fp64 values are 512 MiB."""
SLICE = 64
"""Fewest elements of a slice: fewer would make its rms error a matter of luck."""


@dataclass(frozen=True)
class Spread:
    """How large a tensor or a difference is: overall, and per slice along the leading axes."""

    max: float = 0.0
    rms: float = 0.0
    worst: int = 0
    """Flat index of the largest element."""
    slices: Tensor | None = None
    """L2 norm of each slice; None where slices would be too small or only one."""


UNMEASURED = Spread()


def measure(value: Tensor, target: Tensor | None = None, finite: tuple[Tensor, ...] = ()) -> Spread:
    """Size of `value - target` over the elements that are finite there and in every tensor of `finite`."""
    flat = real(value).reshape(-1)
    goal = None if target is None else real(target).reshape(-1)
    masks = [real(mask).reshape(-1) for mask in finite]
    length = slice_length(real(value).shape)
    largest, worst, squares, slices = 0.0, 0, 0.0, []
    for start, stop in spans(flat.numel(), length):
        piece = flat[start:stop].to(torch.float64, copy=True)  # from here on in place: it may be half a gigabyte
        if goal is not None:
            piece.sub_(goal[start:stop].to(piece.device))
        usable = torch.isfinite(piece)
        for mask in masks:
            usable &= torch.isfinite(mask[start:stop].to(piece.device))
        piece.masked_fill_(usable.logical_not_(), 0.0).abs_()
        here = float(piece.max())
        if here > largest:
            largest, worst = here, start + int(piece.argmax())
        squares += float(torch.linalg.vector_norm(piece)) ** 2
        if length:
            slices.append(torch.linalg.vector_norm(piece.view(-1, length), dim=1))
    rms = math.sqrt(squares / max(flat.numel(), 1))
    return Spread(largest, rms, worst, torch.cat(slices) if slices else None)


def fingerprint(tensor: Tensor) -> int:
    """A number that two tensors share when they have the same bits, and hardly otherwise; nobody wants to forge it."""
    flat = real(tensor.detach()).reshape(-1)
    bits = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()])
    total = 0
    for start, stop in spans(bits.numel(), 1):
        place = torch.arange(start, stop, device=bits.device).mul_(0x9E3779B97F4A7C1).add_(0x2545F4914F6CDD1D)
        total += int(place.mul_(bits[start:stop].to(torch.int64)).sum())  # wraps around, which is as good
    return hash((total, tuple(tensor.shape), str(tensor.dtype)))


def slice_length(shape: torch.Size) -> int:
    """Elements of one slice: the trailing axes that make at least `SLICE`; 0 where there is only one slice."""
    length = 1
    for axis in range(len(shape) - 1, 0, -1):
        length *= shape[axis]
        if length >= SLICE:
            return length if math.prod(shape[:axis]) > 1 and length <= CHUNK else 0
    return 0


def spans(numel: int, length: int) -> Iterator[tuple[int, int]]:
    """Start and end of chunks that hold whole slices."""
    step = max(CHUNK // max(length, 1), 1) * max(length, 1)
    for start in range(0, numel, step):
        yield start, min(start + step, numel)


def real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def as_tensor(leaf: Leaf) -> Tensor | None:
    """A tensor or a float as a tensor; None for anything that is compared exactly as a Python value."""
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    return leaf.detach() if isinstance(leaf, Tensor) else None


def unit_of(dtype: torch.dtype) -> float:
    """Unit roundoff: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point or dtype.is_complex else 0.0


def rounding(unit: float, length: int) -> float:
    """Relative error of an honest kernel: accumulators are fp32 at least, so only those grow with the length."""
    return max(unit, min(unit, 2.0**-24) * max(4.0, math.sqrt(length)))
