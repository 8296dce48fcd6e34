"""Rows and columns of a kernel without a family: indices, sizes and masks, as parameters and statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.fx

from autotriton.propose.compiler.templates.access import Access, Group, grouped, stored
from autotriton.propose.compiler.templates.axes import Axis
from autotriton.propose.compiler.templates.body import Operands, axes_apart
from autotriton.propose.compiler.templates.cluster import Cluster
from autotriton.propose.compiler.templates.sizes import Sizes


@dataclass
class Loops:
    """Groups of loop axes divided into rows and columns."""

    rows: list[Group]
    columns: list[Group]
    apart: bool = False
    """Rows that are neighbours in memory are tiled, those further out are one number per program."""

    @property
    def groups(self) -> list[Group]:
        return [*self.rows, *self.columns]

    def mask_of(self, axes: set[Axis]) -> str:
        over_rows = any(axes & set(group.axes) for group in (self.rows[-1:] if self.apart else self.rows))
        over_columns = any(axes & set(group.axes) for group in self.columns)
        if over_rows and over_columns:
            return "mask"
        return "row_mask" if over_rows else "col_mask" if over_columns else ""


def accesses(cluster: Cluster, operands: Operands, outputs: Sequence[torch.fx.Node]) -> list[Access]:
    return [*operands.loads.values(), *(stored("out", node.meta["val"], cluster.dims[node]) for node in outputs)]


def loops_of(
    cluster: Cluster,
    operands: Operands,
    outputs: Sequence[torch.fx.Node],
    kept: Sequence[Axis],
    reduced: Sequence[Axis],
) -> Loops:
    """Kept axes become rows, reduced ones columns; without a reduction the last group is the columns."""
    walked, apart = accesses(cluster, operands, outputs), axes_apart(cluster)
    rows = grouped(kept, walked, apart)
    columns = grouped(reduced, walked, apart) if reduced else rows[-1:]
    loops = Loops(rows if reduced else rows[:-1], columns)
    _name(loops.rows, "row", "n_rows", "i", "R")
    _name(loops.columns, "col", "n_cols", "j", "C")
    return loops


def take_apart(loops: Loops) -> None:
    """Makes a tile's rows neighbours in memory, which the compiler sees, and its offsets numbers of 32 bits."""
    loops.apart = True
    outer, inner = loops.rows
    outer.index = outer.scalar = "outer"
    inner.index = "inner"


def _name(groups: list[Group], whole: str, size: str, index: str, inner: str) -> None:
    for number, group in enumerate(groups):
        group.index = whole if len(groups) == 1 else f"{index}{number}"
        group.size_name = size if len(groups) == 1 else f"{inner}{number}"


def decomposition(groups: Sequence[Group], whole: str, used: str) -> list[str]:
    """Statements that take the common index apart, for those parts that are used."""
    if len(groups) < 2:
        return []
    lines = []
    for number, group in enumerate(groups):
        behind = " * ".join(other.size_name for other in groups[number + 1 :])
        text = f"{whole} // ({behind})" if " * " in behind else f"{whole} // {behind}" if behind else whole
        if number:
            text = f"{text} % {group.size_name}"
        if occurs(group.index, used):
            lines.append(f"{group.index} = {text}")
    return lines


def inner_sizes(loops: Loops, sizes: Sizes, text: str) -> list[tuple[str, str]]:
    """Sizes below the common ones, with what the wrapper passes, as far as the kernel uses them."""
    found = []
    for groups in (loops.rows, loops.columns):
        if len(groups) > 1:
            found += [(group.size_name, sizes.product(group.axes)) for group in groups if occurs(group.size_name, text)]
    return found


def total(groups: Sequence[Group], sizes: Sizes) -> str:
    return sizes.product([axis for group in groups for axis in group.axes])


def occurs(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def number_arguments(operands: Operands) -> list[str]:
    return [operands.names.of(node) for node in operands.numbers()]
