"""Where an element of a tensor lies, as an expression over loop indices.

Axes that every tensor of a kernel walks through together are merged into one group first, so that a chain of
element-wise operators over whole tensors needs one index and no division.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from autotriton.propose.compiler.templates.axes import Axis, Dims, refreshed
from autotriton.propose.compiler.templates.piece import hint


@dataclass(frozen=True)
class Access:
    """How one tensor is walked."""

    name: str
    steps: tuple[tuple[Axis, int], ...]
    """Axes with their strides at the example's sizes, outermost first."""
    dense: bool
    """Each stride is the product of the sizes that follow, so that sizes alone give the offset."""
    places: dict[Axis, tuple[int, int]] = field(default_factory=dict)
    """Axis -> the tensor's dimension it is in, and the product of the sizes within that dimension behind it."""


def access(name: str, value: torch.Tensor, dims: Dims, *, natural: bool = False) -> Access:
    """`natural` counts only the usual order of dimensions as dense: what is given may come in any layout later."""
    steps: list[tuple[Axis, int]] = []
    places: dict[Axis, tuple[int, int]] = {}
    strides = [hint(stride) for stride in value.stride()]
    for d, (axes, stride) in enumerate(zip(refreshed(dims), strides, strict=True)):
        within = 1
        for axis in reversed(axes):
            if stride:  # a stride of 0 repeats the same element
                steps.append((axis, stride * within))
                places[axis] = (d, within)
            within *= max(axis.size, 1)
    usual = [axis for axes in refreshed(dims) for axis in axes if axis in places]
    steps.sort(key=lambda step: (-step[1], usual.index(step[0])))
    dense = _is_dense(steps) and (not natural or [axis for axis, _ in steps] == usual)
    return Access(name, tuple(steps), dense, places)


def stored(name: str, value: torch.Tensor, dims: Dims) -> Access:
    """How an output is walked: it is allocated without gaps, whatever the traced value looked like."""
    shape = [hint(size) for size in value.shape]
    order = memory_order(value)
    back = [order.index(d) for d in range(len(shape))]
    return access(name, torch.empty([shape[d] for d in order], device="meta").permute(back), dims)


def memory_order(value: torch.Tensor) -> list[int]:
    """Dimensions from the outermost in memory to the innermost."""
    if value.is_contiguous():
        return list(range(value.dim()))
    return sorted(range(value.dim()), key=lambda d: (-hint(value.stride(d)), d))


def _is_dense(steps: Sequence[tuple[Axis, int]]) -> bool:
    expected = 1
    for axis, stride in reversed(steps):
        if stride != expected:
            return False
        expected *= max(axis.size, 1)  # as torch counts the strides of what is empty
    return True


@dataclass(eq=False)
class Group:
    """Merged axes: one loop index."""

    axes: tuple[Axis, ...]
    size_name: str = ""
    index: str = ""
    scalar: str = ""
    """Part of the index that is one number of 64 bits for the whole tile; `more` is the rest of it, if any."""
    more: str = ""

    @property
    def size(self) -> int:
        return math.prod(axis.size for axis in self.axes)


def grouped(axes: Sequence[Axis], accesses: Sequence[Access], apart: set[Axis]) -> list[Group]:
    """Neighbours merged where every access treats them as one; `apart` must keep their own index."""
    groups: list[Group] = []
    for axis in axes:
        if (
            groups
            and axis not in apart
            and groups[-1].axes[-1] not in apart
            and _merge(groups[-1].axes[-1], axis, accesses)
        ):
            groups[-1].axes += (axis,)
        else:
            groups.append(Group((axis,)))
    return groups


def _merge(outer: Axis, inner: Axis, accesses: Sequence[Access]) -> bool:
    for each in accesses:
        strides = dict(each.steps)
        if (outer in strides) != (inner in strides):
            return False
        if outer in strides and strides[outer] != strides[inner] * inner.size:
            return False
    return True


def offset(
    each: Access,
    groups: Sequence[Group],
    rows: Sequence[Group] = (),
    row: str = "",
    columns: Sequence[Group] = (),
    column: tuple[str, str] = ("col", "n_cols"),
) -> str:
    """The element's offset. Where the access starts with all of `rows` in order, their common index `row` is used, and
    `column` where it ends with all of several `columns`: no division, and the inner part stays in 32 bits.
    """
    return " + ".join(filter(None, offset_parts(each, groups, rows, row, columns, column)))


def offset_parts(
    each: Access,
    groups: Sequence[Group],
    rows: Sequence[Group] = (),
    row: str = "",
    columns: Sequence[Group] = (),
    column: tuple[str, str] = ("col", "n_cols"),
) -> tuple[str, str]:
    """What is one number of 64 bits for the whole tile, and what differs in it: either may be empty."""
    present = [group for group in groups if group.axes[-1] in dict(each.steps)]
    if not present:
        return "", ""
    if each.dense:
        order = [axis for axis, _ in each.steps]
        present.sort(key=lambda group: order.index(group.axes[0]))
        steps = [(g.index, g.size_name) for g in present]
        if len(columns) > 1 and present[-len(columns) :] == list(columns):
            steps[-len(columns) :] = [column]
        if row and len(rows) > 1 and present[: len(rows)] == list(rows):
            steps[: len(rows)] = [(row, "")]
        if not present[0].scalar:
            return "", _horner(steps)
        behind = " * ".join(size for _, size in steps[1:])
        steps[0] = (present[0].more, "")
        inner = steps if present[0].more else steps[1:]
        return _times(present[0].scalar, behind), _grouped(_horner(inner)) if inner else ""
    scalars = [_times(g.scalar, stride_name(each, g)) for g in present if g.scalar]
    terms = [(g.more if g.scalar else g.index, stride_name(each, g)) for g in present]
    inner_text = " + ".join(f"{index} * {stride}" for index, stride in terms if index)
    return " + ".join(scalars), _grouped(inner_text) if scalars and inner_text else inner_text


def _times(number: str, factor: str) -> str:
    return f"{number} * ({factor})" if " * " in factor else f"{number} * {factor}" if factor else number


def _grouped(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def stride_name(each: Access, group: Group) -> str:
    """The kernel parameter for a stride that sizes do not give."""
    return f"{each.name}_stride_{each.places[group.axes[-1]][0]}" + (
        f"_{each.places[group.axes[-1]][1]}" if each.places[group.axes[-1]][1] > 1 else ""
    )


def stride_expression(each: Access, group: Group) -> str:
    d, within = each.places[group.axes[-1]]
    return f"{each.name}.stride({d})" + (f" * {within}" if within > 1 else "")


def _horner(steps: Sequence[tuple[str, str]]) -> str:
    text = steps[0][0]
    for number, (index, size) in enumerate(steps[1:]):
        text = f"{text if number == 0 else f'({text})'} * {size} + {index}"
    return text
