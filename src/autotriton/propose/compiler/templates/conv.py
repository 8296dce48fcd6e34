"""Convolution in one, two and three dimensions, plain and transposed: which kernel a call gets.

packed     heavy work: images and weights are packed channels last first, then an implicit matrix product
gather     light work: the implicit matrix product straight from the tensors, one launch
pointwise  1x1 convolutions: a plain matrix product per image
plain      any, where short programs are asked for
direct     depthwise and thinly grouped ones, which memory bounds, and fp64: sums of products without tensor cores
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.fx

from autotriton.propose.compiler.templates import conv_plain
from autotriton.propose.compiler.templates.conv_call import DTYPES, ConvCall, parse
from autotriton.propose.compiler.templates.conv_direct import render_direct
from autotriton.propose.compiler.templates.conv_gather import render_gather
from autotriton.propose.compiler.templates.conv_packed import render_packed
from autotriton.propose.compiler.templates.conv_pointwise import is_pointwise, render_pointwise
from autotriton.propose.compiler.templates.piece import Family, Piece, Site, shape_of

aten = torch.ops.aten

_HEAVY = 4e9
"""Floating point operations above which packing pays for its launches: about 0.1 ms of cuDNN's fp32 on an H200."""
_DEEP = 256
"""Channels of a 1x1 convolution above which splitting each tile anew costs more than splitting all of it once."""


class Convolution:
    def accepts(self, node: torch.fx.Node) -> bool:
        call = parse(node)
        if call is None or call.dtype not in DTYPES or call.weight.meta["val"].dtype is not call.dtype:
            return False
        return 0 not in (*shape_of(call.x), *shape_of(call.weight), *call.out_shape)

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        return _parsed(node).sizes()

    def render(self, site: Site) -> Piece:
        call = _parsed(site.node)
        if site.options.plain and conv_plain.possible(call):
            return conv_plain.render_plain(call, site)
        return RENDERERS[path_of(call, site.options.split_operands)](call, site)


RENDERERS: dict[str, Callable[[ConvCall, Site], Piece]] = {
    "packed": render_packed,
    "gather": render_gather,
    "pointwise": render_pointwise,
    "direct": render_direct,
}


def path_of(call: ConvCall, packed: bool | None = None) -> str:
    """Which kernel, from the example's sizes; `packed` decides where both ways are possible."""
    if call.thin:
        return "direct"
    if is_pointwise(call):
        deep = call.group_channels > _DEEP and call.group_outputs > _DEEP
        heavy = deep and call.flops > 2 * _HEAVY
        return "packed" if (heavy if packed is None else packed) else "pointwise"
    return "packed" if (call.flops > _HEAVY if packed is None else packed) else "gather"


def _parsed(node: torch.fx.Node) -> ConvCall:
    call = parse(node)
    assert call is not None
    return call


_OPERATORS = (
    aten.conv1d.default,
    aten.conv2d.default,
    aten.conv3d.default,
    aten.conv1d.padding,
    aten.conv2d.padding,
    aten.conv3d.padding,
    aten.conv_transpose1d.default,
    aten.conv_transpose2d.input,
    aten.conv_transpose3d.input,
    aten.convolution.default,
)
FAMILIES: dict[object, Family] = {operator: Convolution() for operator in _OPERATORS}
