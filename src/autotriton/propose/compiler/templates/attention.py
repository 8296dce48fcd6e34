"""Attention: scaled_dot_product_attention with masks, causality, grouped heads and any lengths.

Narrow heads get one kernel (`attention_flash.py`), wide ones two (`attention_wide.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.attention_call import Attention, attention_of
from autotriton.propose.compiler.templates.attention_flash import flash_text, split_flash_text
from autotriton.propose.compiler.templates.attention_patterns import softmax_attention
from autotriton.propose.compiler.templates.attention_wide import scores_piece, split_wide_text, wide_text
from autotriton.propose.compiler.templates.piece import Family, Piece, Setting, Site
from autotriton.propose.compiler.templates.split import PARTS, ROWS


class Form(Enum):
    """How attention is computed."""

    FLASH = "one kernel"
    SPLIT_FLASH = "one kernel over fp16 parts"
    WIDE = "scores, then weights times values"
    SPLIT_WIDE = "scores, then weights times values, over fp16 parts"


_SPLIT = (Form.SPLIT_FLASH, Form.SPLIT_WIDE)


class AttentionFamily:
    """Writes scaled_dot_product_attention without dropout."""

    first = "query"

    def accepts(self, node: torch.fx.Node) -> bool:
        return attention_of(node) is not None

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        return _call(node).output

    def render(self, site: Site) -> Piece:
        call = _call(site.node)
        return render_attention(call, site, form_for(call, site.tf32))


def _call(node: torch.fx.Node) -> Attention:
    call = attention_of(node)
    assert call is not None, "only what was accepted is written"
    return call


def render_attention(call: Attention, site: Site, form: Form) -> Piece:
    text, helpers = _TEXT[form](call, site), (PARTS, ROWS) if form in _SPLIT else ()
    if form in (Form.WIDE, Form.SPLIT_WIDE):
        scores = scores_piece(call, site)
        text, helpers = f"{scores.text}\n\n{text}", tuple(dict.fromkeys((*scores.helpers, *helpers)))
    return Piece(site.name, text, call.nodes, settings_for(call, form, site.tf32), helpers)


_TEXT: dict[Form, Callable[[Attention, Site], str]] = {
    Form.FLASH: flash_text,
    Form.SPLIT_FLASH: split_flash_text,
    Form.WIDE: wide_text,
    Form.SPLIT_WIDE: split_wide_text,
}


def form_for(call: Attention, tf32: bool) -> Form:
    batch, queries, keys, width, values = call.shape
    half = call.dtype in (torch.float16, torch.bfloat16)
    wide = max(width, values) > (256 if half else 128)
    if call.dtype is not torch.float32 or tf32:
        return Form.WIDE if wide else Form.FLASH
    # Estimates for an H200: 45 and 130 TFLOP/s, 12 bytes moved at 4 TB/s per element that is split.
    flops = 2.0 * batch * queries * keys * (width + values) * (0.5 if call.causal else 1.0)
    moved = 12.0 * batch * (queries * width + keys * (width + values))
    if flops / 45e12 - flops / 130e12 > moved / 4e12 + 40e-6:
        return Form.SPLIT_WIDE if wide else Form.SPLIT_FLASH
    return Form.WIDE if wide else Form.FLASH


def settings_for(call: Attention, form: Form, tf32: bool) -> tuple[Setting, ...]:
    """Complete settings, best guess first; wide heads need smaller tiles."""
    _, queries, keys, width, values = call.shape
    found: list[Setting] = []
    for rows, columns, warps, stages, *part in _tiles(call, form):
        blocks = {"BLOCK_M": _fitted(rows, queries), "BLOCK_N": _fitted(columns, keys)}
        narrow = {"BLOCK_E": max(16, _power(width)), "BLOCK_V": max(16, _power(values))}
        widths = {"BLOCK_V": _fitted(part[0], values)} if part else narrow
        found.append({**blocks, **widths, "num_warps": warps if queries > 32 else 4, "num_stages": stages})
    if form not in _SPLIT and call.dtype is torch.float32:
        first, second = ("tf32", "bf16x6") if tf32 else ("bf16x6", "ieee")
        found = [*({**s, "PRECISION": first} for s in found), *({**s, "PRECISION": second} for s in found[:3])]
    return tuple(dict(items) for items in dict.fromkeys(tuple(setting.items()) for setting in found))


def _tiles(call: Attention, form: Form) -> tuple[tuple[int, ...], ...]:
    kind = {torch.float32: "fp32", torch.float64: "fp64"}.get(call.dtype, "half")
    size = "large" if max(call.shape[3:]) > 64 else "small"
    if form in _SPLIT:
        kind = "parts"
    return _WIDE_TILES[kind] if form in (Form.WIDE, Form.SPLIT_WIDE) else _FLASH_TILES[kind, size]


_FLASH_TILES = {
    ("fp64", "small"): ((32, 32, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1)),
    ("fp64", "large"): ((16, 16, 4, 1), (16, 32, 4, 1), (32, 16, 4, 1)),
    ("parts", "small"): (
        (128, 64, 8, 2),
        (64, 64, 4, 2),
        (128, 64, 4, 2),
        (128, 32, 4, 3),
        (64, 64, 4, 3),
        (128, 128, 8, 2),
    ),
    ("parts", "large"): ((128, 32, 8, 2), (128, 32, 8, 3), (64, 32, 4, 2), (64, 32, 4, 3), (128, 64, 8, 2)),
    ("fp32", "small"): ((128, 32, 8, 2), (64, 32, 4, 2), (128, 64, 8, 2), (32, 32, 4, 3), (64, 64, 4, 2)),
    ("fp32", "large"): (
        (64, 16, 4, 2),
        (64, 32, 8, 2),
        (64, 32, 4, 2),
        (32, 32, 4, 2),
        (128, 32, 8, 2),
        (32, 16, 4, 3),
    ),
    ("half", "small"): (
        (128, 64, 4, 3),
        (128, 128, 8, 3),
        (64, 64, 4, 3),
        (64, 128, 4, 3),
        (128, 64, 8, 3),
        (64, 32, 4, 4),
    ),
    ("half", "large"): (
        (128, 64, 8, 3),
        (64, 64, 4, 3),
        (128, 128, 8, 2),
        (128, 64, 8, 2),
        (64, 32, 4, 4),
        (128, 32, 8, 3),
    ),
}
"""By type and width of the heads (small: at most 64): BLOCK_M, BLOCK_N, warps, stages."""
_WIDE_TILES = {
    "fp64": ((32, 32, 4, 1, 32), (16, 32, 4, 1, 64), (16, 16, 4, 1, 32)),
    "parts": (
        (128, 32, 8, 3, 128),
        (64, 64, 4, 2, 128),
        (128, 64, 8, 3, 64),
        (128, 64, 8, 2, 128),
        (128, 32, 8, 2, 128),
    ),
    "fp32": ((128, 32, 8, 2, 128), (64, 32, 4, 2, 64), (128, 32, 8, 2, 64), (64, 32, 4, 2, 128), (32, 32, 4, 3, 64)),
    "half": (
        (128, 64, 8, 3, 128),
        (64, 64, 4, 3, 128),
        (128, 128, 8, 2, 128),
        (128, 64, 8, 3, 256),
        (64, 64, 4, 3, 64),
    ),
}
"""By type: BLOCK_M, BLOCK_N, warps, stages, BLOCK_V."""


def _fitted(block: int, size: int) -> int:
    return min(block, max(16, _power(size)))


def _power(size: int) -> int:
    """The smallest power of two that is not below the size."""
    return 1 << max(0, size - 1).bit_length()


_FAMILY = AttentionFamily()
FAMILIES: dict[Callable[..., Any], Family] = {
    torch.ops.aten.scaled_dot_product_attention.default: _FAMILY,
    softmax_attention: _FAMILY,
}
