"""Scans along a dimension: running sums, products, maxima, minima and log-sums-of-exponentials.

One program carries a few lanes (all positions along the other dimensions) through the whole scanned dimension, block by
block. Where there are few lanes and they are long, each lane is cut into chunks: one kernel computes the total of every
chunk, a second starts each chunk from the totals before it. What must stay true: the carry enters every block of
a lane exactly once, and elements that do not exist count as the operation's identity.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.lanes import Layout
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of
from autotriton.propose.compiler.templates.scan_patterns import (
    exclusive_cumsum,
    masked_cumsum,
    reverse_cumsum,
)
from autotriton.propose.compiler.templates.scan_text import ScanText

aten = torch.ops.aten

_FEW_LANES = 132
"""Programs below which an H200 has idle multiprocessors, so that cutting lanes into chunks pays."""
_LONG = 1 << 14


class Scan:
    """One scanning operator. `reverse` scans from the end, `exclusive` leaves the element itself out."""

    def __init__(
        self,
        operation: str,
        reverse: bool = False,
        exclusive: bool = False,
        masked: bool = False,
        indexed: bool = False,
    ) -> None:
        self.operation, self.reverse, self.exclusive, self.masked = operation, reverse, exclusive, masked
        self.indexed = indexed
        """The operator returns values and their indices, as a tuple."""

    def accepts(self, node: torch.fx.Node) -> bool:
        x = self._inputs(node)[0].meta["val"]
        if x.dim() == 0 or x.dtype.is_complex or 0 in shape_of(self._inputs(node)[0]):
            return False
        return not (self.indexed and x.dtype.itemsize > 4)  # value and index are packed into one 64-bit key

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        rank = self._inputs(node)[0].meta["val"].dim()
        return {1: ("N",), 2: ("ROWS", "COLS")}.get(rank, tuple(f"D{d}" for d in range(rank)))

    def render(self, site: Site) -> Piece:
        inputs = self._inputs(site.node)
        text = ScanText(self, site, inputs, Layout(self.sizes(site.node), self._dim(site.node)))
        chunked = self._chunked(site.node)
        body = text.chunked() if chunked else text.plain()
        helper = text.operation.helper
        return Piece(
            name=site.name,
            text=body,
            operands=tuple(inputs),
            settings=_settings(shape_of(inputs[0]), self._dim(site.node), chunked),
            helpers=(helper,) if helper else (),
        )

    def _inputs(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        found = node.args[: 2 if self.masked else 1]
        return [arg for arg in found if isinstance(arg, torch.fx.Node)]

    def _dim(self, node: torch.fx.Node) -> int:
        position = 2 if self.masked else 1
        given: Any = node.args[position] if len(node.args) > position else node.kwargs["dim"]
        return int(given % self._inputs(node)[0].meta["val"].dim())

    def _chunked(self, node: torch.fx.Node) -> bool:
        shape = shape_of(self._inputs(node)[0])
        length = shape[self._dim(node)]
        return length >= _LONG and math.prod(shape) // length < _FEW_LANES


def _settings(shape: tuple[int, ...], dim: int, chunked: bool) -> tuple[Setting, ...]:
    """Lanes by steps of a tile. Along the last dimension steps are contiguous, otherwise lanes are."""
    length, contiguous = shape[dim], math.prod(shape[dim + 1 :]) == 1
    widest = max(16, 1 << (length - 1).bit_length())
    if not contiguous:
        tiles = [(64, 64, 4), (32, 128, 4), (128, 32, 4), (32, 64, 4), (64, 128, 8), (32, 32, 2), (128, 64, 8)]
    elif length > 512:
        tiles = [(1, 4096, 8), (1, 4096, 4), (1, 2048, 4), (2, 2048, 8), (1, 8192, 8), (4, 1024, 4), (1, 32768, 32)]
    else:
        tiles = [(8, 512, 4), (4, 512, 4), (16, 256, 4), (32, 128, 4), (2, 512, 2), (1, 512, 1)]
    settings: list[Setting] = []
    for lanes, steps, warps in tiles:
        alone = len(shape) == 1 or (chunked and contiguous)
        setting: Setting = {"BLOCK_LANES": 1 if alone else lanes, "BLOCK_N": min(steps, widest)}
        if chunked:
            setting["CHUNKS"] = 1 << max(1, min(10, (-(-length // steps) - 1).bit_length()))
        settings += [{**setting, "PREFETCH": stages, "num_warps": warps} for stages in (1, 3)]
    return tuple({str(setting): setting for setting in settings}.values())


FAMILIES = {
    aten.cumsum.default: Scan("cumsum"),
    aten.cumprod.default: Scan("cumprod"),
    aten.logcumsumexp.default: Scan("logcumsumexp"),
    aten.cummax.default: Scan("cummax", indexed=True),
    aten.cummin.default: Scan("cummin", indexed=True),
    reverse_cumsum: Scan("cumsum", reverse=True),
    exclusive_cumsum: Scan("cumsum", exclusive=True),
    masked_cumsum: Scan("cumsum", masked=True),
}
