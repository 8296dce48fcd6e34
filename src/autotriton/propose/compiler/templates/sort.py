"""Sorting along a dimension: `sort`, `topk`, `kthvalue` and `median`, values with their indices.

A bitonic network over (rank, index) pairs, where ranks are integers in the order of the numbers. Equal numbers are
ordered by index, so every sort is stable; NaN counts as the largest number, as in torch. `topk` of long rows goes
through them block by block and keeps the best found so far.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.lanes import Layout
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of
from autotriton.propose.compiler.templates.sort_text import BLOCK, NETWORK, Order, SortText

aten = torch.ops.aten

_LONGEST = 1 << 13
"""Elements of a row that one program can hold while it sorts them."""


def _argument(node: torch.fx.Node, index: int, name: str, default: Any) -> Any:
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def _sort(node: torch.fx.Node) -> Order:
    return Order(_argument(node, 1, "dim", -1), bool(_argument(node, 2, "descending", False)))


def _stable_sort(node: torch.fx.Node) -> Order:
    return Order(_argument(node, 2, "dim", -1), bool(_argument(node, 3, "descending", False)))


def _topk(node: torch.fx.Node) -> Order:
    return Order(_argument(node, 2, "dim", -1), bool(_argument(node, 3, "largest", True)), count=node.args[1])


def _kth(node: torch.fx.Node) -> Order:
    k: Any = node.args[1]
    return Order(_argument(node, 2, "dim", -1), position=str(k - 1), keepdim=bool(_argument(node, 3, "keepdim", False)))


def _median(node: torch.fx.Node) -> Order:
    keepdim = bool(_argument(node, 2, "keepdim", False))
    return Order(_argument(node, 1, "dim", -1), position="({length} - 1) // 2", keepdim=keepdim, nan_first=True)


class Sorting:
    """One sorting operator; each returns (values, indices)."""

    def __init__(self, read: Any) -> None:
        self.read = read

    def accepts(self, node: torch.fx.Node) -> bool:
        x: Any = node.args[0]
        value = x.meta["val"]
        order: Order = self.read(node)
        if (
            value.dim() == 0
            or value.dtype.is_complex
            or 0 in shape_of(x)
            or value.dtype in (torch.uint32, torch.uint64)
        ):
            return False
        length = shape_of(x)[order.dim]
        if order.count is None:
            return length <= _LONGEST
        return isinstance(order.count, int) and 0 < order.count <= (_LONGEST if length <= _LONGEST else BLOCK // 2)

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        x: Any = node.args[0]
        rank = x.meta["val"].dim()
        return {1: ("N",), 2: ("ROWS", "COLS")}.get(rank, tuple(f"D{d}" for d in range(rank)))

    def render(self, site: Site) -> Piece:
        x: Any = site.node.args[0]
        order: Order = self.read(site.node)
        layout = Layout(self.sizes(site.node), order.dim % x.meta["val"].dim())
        length = shape_of(x)[layout.dim]
        text = SortText(site.name, order, layout, x.meta["val"].dtype, streamed=length > _LONGEST)
        return Piece(
            name=site.name,
            text=text.kernel() + "\n\n" + text.wrapper(),
            operands=(x,),
            settings=_settings(min(length, BLOCK) if text.streamed else length, alone=len(layout.sizes) == 1),
            helpers=(NETWORK,),
        )


def _settings(length: int, alone: bool) -> tuple[Setting, ...]:
    """Rows sorted together, so that short rows fill a program; each thread holds about eight elements."""
    padded = max(2, 1 << (length - 1).bit_length())
    found: list[Setting] = []
    for elements in (2048, 1024, 4096):
        lanes = 1 if alone else max(1, elements // padded)
        for each in (8, 16, 4):
            warps = min(32, max(1, lanes * padded // (32 * each)))
            found.append({"BLOCK_LANES": lanes, "num_warps": warps})
    return tuple({str(setting): setting for setting in found}.values())


FAMILIES = {
    aten.sort.default: Sorting(_sort),
    aten.sort.stable: Sorting(_stable_sort),
    aten.topk.default: Sorting(_topk),
    aten.kthvalue.default: Sorting(_kth),
    aten.median.dim: Sorting(_median),
}
