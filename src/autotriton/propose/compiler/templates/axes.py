"""Which loop axes the dimensions of a value run over, through views.

A value's *dims* say, for each of its dimensions, the axes it is made of: one as a rule, several after `flatten`, none
where it has size 1 or is broadcast. A view changes dims and costs nothing; where it splits a dimension, the axis is
split for everybody (`split`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch.fx

from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.piece import hint, shape_of


@dataclass(eq=False)
class Axis:
    """One loop axis. `parts` is filled when it has been split into an outer and an inner one."""

    size: int
    static: bool
    """The size does not depend on a symbolic dimension."""
    parts: tuple[Axis, Axis] | None = None

    def leaves(self) -> tuple[Axis, ...]:
        return (self,) if self.parts is None else self.parts[0].leaves() + self.parts[1].leaves()


Dims = tuple[tuple[Axis, ...], ...]


def fresh(node: torch.fx.Node, shape: Sequence[object] | None = None) -> Dims:
    """New axes for every dimension of a value that is not of size 1."""
    sizes = node.meta["val"].shape if shape is None else shape
    return tuple((Axis(hint(size), isinstance(size, int)),) if hint(size) != 1 else () for size in sizes)


def flat(dims: Dims) -> tuple[Axis, ...]:
    return tuple(leaf for axes in dims for axis in axes for leaf in axis.leaves())


def refreshed(dims: Dims) -> Dims:
    """With axes that were split in the meantime replaced by their parts."""
    return tuple(tuple(leaf for axis in axes for leaf in axis.leaves()) for axes in dims)


def viewed(node: torch.fx.Node, dims: Dims) -> Dims | None:
    """Dims of a view of a value with these dims; None where a view cannot be expressed by axes."""
    name = name_of(node)
    dims = refreshed(dims)
    if name in ("view", "reshape", "_unsafe_view", "squeeze", "unsqueeze"):
        return regrouped(dims, shape_of(node))
    if name == "permute":
        return tuple(dims[d] for d in node.args[1])  # type: ignore[union-attr, index]
    if name in ("transpose", "t"):
        a, b = (int(d) for d in (node.args[1:3] if name == "transpose" else (0, 1)))  # type: ignore[arg-type]
        if len(dims) < 2:
            return dims
        order = list(range(len(dims)))
        order[a], order[b] = order[b], order[a]
        return tuple(dims[d] for d in order)
    if name == "expand":
        added = len(shape_of(node)) - len(dims)
        return None if _grows(node, dims) else ((),) * added + dims
    if name in ("alias", "detach", "clone", "lift_fresh_copy"):
        return dims
    return None


def _grows(node: torch.fx.Node, dims: Dims) -> bool:
    """Some dimension gets a size it had not: its values repeat, which only the frame of a cluster can place."""
    shape = shape_of(node)
    sizes = [math.prod(axis.size for axis in axes) for axes in ((),) * (len(shape) - len(dims)) + dims]
    return sizes != list(shape)


def regrouped(dims: Dims, shape: Sequence[int]) -> Dims | None:
    """The same axes in the same order under a new shape; axes are split where the shape asks for it."""
    axes = list(flat(dims))
    result: list[tuple[Axis, ...]] = []
    for size in shape:
        taken: list[Axis] = []
        left = size
        while left > 1:
            if not axes:
                return None
            axis = axes.pop(0)
            if left % axis.size == 0:
                taken.append(axis)
                left //= axis.size
            elif axis.size % left == 0 and axis.static:
                outer, inner = Axis(left, True), Axis(axis.size // left, True)
                axis.parts = (outer, inner)
                taken.append(outer)
                axes.insert(0, inner)
                left = 1
            else:
                return None
        result.append(tuple(taken))
    return tuple(result) if not axes else None


def aligned(dims: Dims, rank: int) -> Dims:
    """Right-aligned to a rank, as broadcasting does."""
    return ((),) * (rank - len(dims)) + dims
