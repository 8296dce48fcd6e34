"""Writing to places that an index tensor names: `scatter`, `scatter_add`, `scatter_reduce`, `index_put`.

`index_add` and `index_copy` come here as `index_put`.

As a rule in gather form: every element of the result looks through the indices for its own number, so that nothing
depends on which program comes first, and the last of equal indices wins as on the CPU. Where that would compare too
much, the indices are written from their side into a copy: sums through atomic additions, everything else plainly.
Indices outside the result are left out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.lanes import Layout
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of
from autotriton.propose.compiler.templates.scatter_text import ScatterText, Update

aten = torch.ops.aten

_MANY_COMPARISONS = 1 << 33
"""About a millisecond of comparing on an H200, beyond which writing from the indices' side is worth its atomics."""


def _scatter(node: torch.fx.Node) -> Update:
    x, dim, index, source = node.args[:4]
    return Update(x, dim, index, source, "write")  # type: ignore[arg-type]


def _scatter_add(node: torch.fx.Node) -> Update:
    x, dim, index, source = node.args[:4]
    return Update(x, dim, index, source, "sum")  # type: ignore[arg-type]


def _scatter_reduce(node: torch.fx.Node) -> Update:
    x, dim, index, source, how = node.args[:5]
    included: Any = node.kwargs.get("include_self", node.args[5] if len(node.args) > 5 else True)
    return Update(x, dim, index, source, how, with_x=included)  # type: ignore[arg-type]


def _index_put(node: torch.fx.Node) -> Update | None:
    """One index tensor, for one dimension, with values of the full shape; anything else is not taken."""
    x, indices, source = node.args[:3]
    accumulate = bool(node.args[3]) if len(node.args) > 3 else bool(node.kwargs.get("accumulate", False))
    places: Any = indices
    given = [(d, index) for d, index in enumerate(places) if index is not None]
    if len(given) != 1 or given[0][1].meta["val"].dim() != 1 or given[0][1].meta["val"].dtype == torch.bool:
        return None
    dim, index = given[0]
    update = Update(x, dim, index, source, "sum" if accumulate else "write")  # type: ignore[arg-type]
    wanted = [*shape_of(update.x)[:dim], *shape_of(index), *shape_of(update.x)[dim + 1 :]]
    full = isinstance(source, torch.fx.Node) and list(shape_of(source)) == wanted
    return update if full else None


class Scattering:
    def __init__(self, read: Any) -> None:
        self.read = read

    def accepts(self, node: torch.fx.Node) -> bool:
        update: Update | None = self.read(node)
        if update is None or update.how not in ("write", "sum", "mean", "amax", "amin"):
            return False
        value = update.x.meta["val"]
        if value.dim() == 0 or value.dtype.is_complex or 0 in shape_of(update.x) or 0 in shape_of(update.index):
            return False
        if value.dtype == torch.bool and update.how != "write":
            return False
        floating = value.dtype.is_floating_point or update.how != "mean"
        return floating and (update.how in ("write", "sum") or not self._crowded(update))

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        rank = node.meta["val"].dim()
        return {1: ("N",), 2: ("ROWS", "COLS")}.get(rank, tuple(f"D{d}" for d in range(rank)))

    def render(self, site: Site) -> Piece:
        update: Update = self.read(site.node)
        text = ScatterText(site, update, Layout(self.sizes(site.node), update.dim % update.x.meta["val"].dim()))
        written = self._crowded(update)
        operands = [update.x, update.index, *([update.source] if text.has_source else [])]
        return Piece(
            name=site.name,
            text=text.from_indices() if written else text.gathered(),
            operands=tuple(operands),
            settings=_settings(len(text.layout.sizes) == 1),
        )

    def _crowded(self, update: Update) -> bool:
        length = shape_of(update.index)[0 if update.shared else update.dim]
        return length * math.prod(shape_of(update.x)) > _MANY_COMPARISONS


def _settings(alone: bool) -> tuple[Setting, ...]:
    """Lanes by places, against how many indices at a time."""
    tiles = [
        (4, 64, 32, 4),
        (1, 128, 32, 4),
        (8, 32, 32, 4),
        (16, 16, 32, 4),
        (2, 64, 64, 8),
        (4, 32, 64, 4),
        (1, 64, 64, 4),
    ]
    found: list[Setting] = []
    for lanes, places, indices, warps in tiles:
        setting: Setting = {"BLOCK_LANES": 1 if alone else lanes, "BLOCK_N": places, "BLOCK_I": indices}
        found.append({**setting, "num_warps": warps})
    return tuple(found)


FAMILIES = {
    aten.scatter.src: Scattering(_scatter),
    aten.scatter.value: Scattering(_scatter),
    aten.scatter_add.default: Scattering(_scatter_add),
    aten.scatter_reduce.two: Scattering(_scatter_reduce),
    aten.index_put.default: Scattering(_index_put),
}
