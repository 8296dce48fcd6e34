"""What several runs of a gold agree on: the answer, how far it may be off, and which elements are nobody's to judge.

An element that differs between runs (never written, random, raced for, read from memory the gold was not given, or a
matter of the configuration tuning chose) is undetermined. All the others are compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autotriton.judge.answers import Answer
from autotriton.judge.measure import Spread, measure, unit_of

_LENGTH = 1 << 12
"""How long a Triton gold's sums are is not known; this many terms are granted."""
_ROUNDINGS = 64
"""Unit roundoffs of the largest element by which runs may differ: atomics and other block sizes add in any order."""


class Seen:
    """One leaf over several runs; `unit` is the call's unit roundoff."""

    def __init__(self, name: str, first: Any, unit: float) -> None:
        self.name, self.unit = name, unit
        self.first = first.contiguous() if isinstance(first, Tensor) else first
        self.open: Tensor | None = None
        """Elements that are not determined."""
        self.all_open = False
        """Nothing of it is: another kind or shape in every run, or a plain value that differs."""
        self.error = Spread()

    def add(self, again: Any) -> None:
        first = self.first
        if not isinstance(first, Tensor):
            self.all_open |= type(first) is not type(again) or not (first == again or (first != first))
        elif not comparable(again, first):
            self.all_open = True
        elif first.numel():
            self._add(again)

    def _add(self, again: Tensor) -> None:
        differs = ~equal(self.first, again)
        if not bool(differs.any()):
            return
        if self.first.is_floating_point() or self.first.is_complex():
            limit = _ROUNDINGS * max(self.unit, 2.0**-24) * max(measure(self.first).max, 1e-30)
            off = (_wide(again) - _wide(self.first)).abs()
            differs &= ~(off <= limit)  # NaN and infinities are never within it
            error = measure(torch.where(differs, self.first, again), _wide(self.first), finite=(self.first,))
            self.error = error if error.max > self.error.max else self.error
        if bool(differs.any()):
            self.open = differs if self.open is None else self.open | differs

    @property
    def numel(self) -> int:
        return self.first.numel() if isinstance(self.first, Tensor) else 0

    @property
    def open_count(self) -> int:
        return self.numel if self.all_open else 0 if self.open is None else int(self.open.sum())

    def answer(self, moved: Any) -> Answer:
        """The leaf as its own oracle; `moved` is what it becomes when the inputs move by a rounding error."""
        value = self.first
        if not isinstance(value, Tensor):
            return Answer(self.name, value)
        if not value.is_floating_point() and not value.is_complex():
            return Answer(self.name, value, change=_integer_change(value, moved, self.open))
        oracle = _wide(value)
        if self.open is not None:
            value, oracle = (tensor.masked_fill(self.open, float("nan")) for tensor in (value, oracle))
        change = measure(moved, oracle, finite=(value,)) if comparable(moved, value) else Spread()
        answer = Answer(self.name, value, oracle, unit=max(self.unit, unit_of(value.dtype)), length=_LENGTH)
        return replace(answer, size=measure(oracle, finite=(value,)), error=self.error, change=change)

    def determined(self, got: Any) -> Any:
        """A candidate's leaf, with the gold's own value wherever that is not determined. Kinds stay its own."""
        value = self.first
        if not isinstance(value, Tensor):
            return value if self.all_open and type(value) is type(got) else got
        if not comparable(got, value) or not value.numel():
            return got
        if self.all_open:
            return value
        if self.open is None or value.is_floating_point() or value.is_complex():
            return got  # floats that are not determined are NaN in the answer, which says as much
        return torch.where(self.open, value, got.to(value.device))


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _integer_change(value: Tensor, moved: Any, opened: Tensor | None) -> Spread:
    """How far integers may be off (`max`) and in what share of the elements (`rms`): rounded values sit on edges."""
    if not comparable(moved, value) or value.dtype == torch.bool or not value.numel():
        return Spread()
    moved = moved if opened is None else torch.where(opened, value, moved)
    if not bool((moved != value).any()):
        return Spread()
    return Spread(float((moved.double() - value.double()).abs().max()), float((moved != value).double().mean()))


def comparable(one: Any, other: Any) -> bool:
    return isinstance(one, Tensor) and one.shape == other.shape and one.dtype == other.dtype


def equal(one: Tensor, other: Tensor) -> Tensor:
    same = one == other
    return same | ((one != one) & (other != other)) if one.is_floating_point() or one.is_complex() else same
