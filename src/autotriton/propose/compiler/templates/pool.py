"""Pooling: maxima and averages over windows, plain and adaptive, in one to three dimensions."""

from __future__ import annotations

import torch
import torch.fx

from autotriton.propose.compiler.templates.piece import Family, Piece, Site, shape_of
from autotriton.propose.compiler.templates.pool_call import DTYPES, PoolCall, parse
from autotriton.propose.compiler.templates.pool_rows import is_wide, render_global, render_wide
from autotriton.propose.compiler.templates.pool_strip import is_strip, render_strip
from autotriton.propose.compiler.templates.pool_window import render_plain, render_window

aten = torch.ops.aten


class Pooling:
    def accepts(self, node: torch.fx.Node) -> bool:
        call = parse(node)
        if call is None or call.dtype not in DTYPES or 0 in shape_of(call.x):
            return False
        return call.divisor != 0 and len(shape_of(call.x)) in (call.dims + 1, call.dims + 2)

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        return _parsed(node).sizes()

    def render(self, site: Site) -> Piece:
        call = _parsed(site.node)
        if call.is_global and not call.indices_used:
            return render_global(call, site)
        if site.options.plain and not call.adaptive:
            return render_plain(call, site)
        if site.options.strips and is_strip(call):
            return render_strip(call, site)
        return render_wide(call, site) if is_wide(call) else render_window(call, site)


def _parsed(node: torch.fx.Node) -> PoolCall:
    call = parse(node)
    assert call is not None
    return call


_OPERATORS = (
    aten.max_pool1d.default,
    aten.max_pool2d.default,
    aten.max_pool3d.default,
    aten.max_pool1d_with_indices.default,
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten.avg_pool1d.default,
    aten.avg_pool2d.default,
    aten.avg_pool3d.default,
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool3d.default,
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
    aten.adaptive_max_pool1d.default,
    aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
)
FAMILIES: dict[object, Family] = {operator: Pooling() for operator in _OPERATORS}
