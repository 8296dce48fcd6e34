"""Sizes as the wrapper reads them from its tensors: `x.shape[1]`, `x.shape[1] // 8`, `x.numel()`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from autotriton.propose.compiler.templates.access import memory_order
from autotriton.propose.compiler.templates.axes import Axis, Dims, refreshed
from autotriton.propose.compiler.templates.piece import hint


class Unreadable(Exception):
    """A size that depends on a symbolic dimension and that no operand has."""


class Sizes:
    """Looks sizes up in the operands of one wrapper.

    `named` sizes have a name already; `computed` ones are those of operators that make a shape of their own, as
    concatenation does.
    """

    def __init__(
        self,
        operands: Sequence[tuple[str, torch.Tensor, Dims]],
        named: dict[Axis, str] | None = None,
        computed: dict[Axis, str] | None = None,
        whole: tuple[Dims, tuple[str, ...]] | None = None,
    ) -> None:
        """`whole` names every dimension of one shape, those of size 1 too, which have no axis to be known by."""
        self.operands = [(name, value, refreshed(dims)) for name, value, dims in operands]
        self.named, self.computed = named or {}, computed or {}
        self.whole = whole

    def axis(self, axis: Axis) -> str:
        if axis in self.named:
            return self.named[axis]
        for name, _, dims in self.operands:
            for d, axes in enumerate(dims):
                if axes == (axis,):
                    return f"{name}.shape[{d}]"
        for name, _, dims in self.operands:
            for d, axes in enumerate(dims):
                # The innermost part of a dimension is what its outer parts, which the program says, leave of it.
                if axes and axes[-1] is axis and all(other.static for other in axes):
                    return f"{name}.shape[{d}] // {math.prod(other.size for other in axes[:-1])}"
        for name, _, dims in self.operands:
            for d, axes in enumerate(dims):
                if axis in axes and not axis.static and all(other.static for other in axes if other is not axis):
                    return f"{name}.shape[{d}] // {math.prod(other.size for other in axes if other is not axis)}"
        return self._elsewhere(axis)

    def _elsewhere(self, axis: Axis) -> str:
        if axis in self.computed:
            return self.computed[axis]
        for parent, text in [*self.named.items(), *self.computed.items()]:
            if parent.parts is not None and axis in parent.leaves():
                rest = math.prod(leaf.size for leaf in parent.leaves() if leaf is not axis)
                return f"{_bracketed(text)} // {rest}"
        if not axis.static:
            raise Unreadable(f"a size of {axis.size}")
        return str(axis.size)

    def product(self, axes: Sequence[Axis]) -> str:
        """The number of elements over several axes, with a whole tensor's `numel()` where that is it."""
        for name, _, dims in self.operands:
            if [axis for part in dims for axis in part] == list(axes) and len(axes) > 1:
                return f"{name}.numel()"
        texts, rest = [], list(axes)
        while rest:
            taken, text = self._whole_dimension(rest) or (1, self.axis(rest[0]))
            texts.append(text)
            del rest[:taken]
        return " * ".join(map(_bracketed, texts)) if len(texts) > 1 else "".join(texts) or "1"

    def _whole_dimension(self, axes: Sequence[Axis]) -> tuple[int, str] | None:
        """How many of the first axes are one dimension of an operand, if several are, and that dimension."""
        found = [
            (len(part), f"{name}.shape[{d}]")
            for name, _, dims in self.operands
            for d, part in enumerate(dims)
            if len(part) > 1 and part == tuple(axes[: len(part)])
        ]
        return max(found, key=lambda each: each[0], default=None)

    def dimension(self, axes: Sequence[Axis]) -> str:
        if len(axes) == 1 and axes[0] in self.named:
            return self.named[axes[0]]
        for name, _, dims in self.operands:
            for d, part in enumerate(dims):
                if part == tuple(axes) and part:
                    return f"{name}.shape[{d}]"
        return self.product(axes)

    def shape(self, dims: Dims) -> str:
        if self.whole is not None and refreshed(self.whole[0]) == refreshed(dims):
            sizes = list(self.whole[1])
        else:
            sizes = [self.dimension(axes) for axes in refreshed(dims)]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def empty(self, value: torch.Tensor, dims: Dims) -> str:
        """An allocation for an output, in the memory layout the reference returns."""
        dims = refreshed(dims)
        for name, like, own in self.operands:
            same = own == dims and like.dtype == value.dtype and like.is_contiguous() and value.is_contiguous()
            if same and list(map(hint, like.shape)) == list(map(hint, value.shape)):
                return f"torch.empty_like({name})"
        device = self.operands[0][0]
        kind = next((f"{n}.dtype" for n, v, _ in self.operands if v.dtype == value.dtype), str(value.dtype))
        order = memory_order(value)
        if order == list(range(len(dims))):
            return f"torch.empty({self.shape(dims)}, dtype={kind}, device={device}.device)"
        back = ", ".join(str(order.index(d)) for d in range(len(dims)))
        shape = self.shape(tuple(dims[d] for d in order))
        return f"torch.empty({shape}, dtype={kind}, device={device}.device).permute({back})"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text
