"""Attention with wide heads, where queries, keys and values of a tile do not fit into registers together.

Scores go through memory once: a product kernel of the matmul family makes them, and the kernel here turns them into
weights while it multiplies with the values, a part of the value's columns at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from autotriton.propose.compiler.templates.attention_call import Attention, formula_of
from autotriton.propose.compiler.templates.attention_flash import (
    LOG2E,
    WEIGHT_UNIT,
    assembled,
    dot_options,
    ending_lines,
    named,
    origin_lines,
    part_origin,
    part_strides,
    plain_strides,
    softmax_lines,
    split_statement,
    state_lines,
    three_dots,
    weight_parts,
)
from autotriton.propose.compiler.templates.matmul import render_product
from autotriton.propose.compiler.templates.matmul_contraction import Contraction, Operand
from autotriton.propose.compiler.templates.matmul_settings import path_for
from autotriton.propose.compiler.templates.piece import NO_PLACES, Piece, Places, Site, shape_of


class _Scores:
    """An epilogue that stores the scores, densely, in the type sums have."""

    def __init__(self, call: Attention) -> None:
        self.call = call

    def formula(self, value: str) -> str:
        return value

    def operands(self) -> list[str]:
        return []

    def parameters(self) -> list[str]:
        return ["scores_ptr"]

    def arguments(self) -> list[str]:
        return ["scores"]

    def allocations(self) -> list[str]:
        kind = "torch.float64" if self.call.dtype is torch.float64 else "torch.float32"
        return [f"scores = torch.empty(({', '.join([*self.call.batch, 'L', 'S'])}), dtype={kind}, device=x.device)"]

    def lines(self, value: str, index: Sequence[str], mask: str, places: Places = NO_PLACES) -> list[str]:
        offset = index[0]
        for place, size in zip(index[1:], [*self.call.batch, "L", "S"][1:], strict=True):
            offset = f"({offset}) * {size} + {place}"
        return [f"tl.store(scores_ptr + {offset}, {value}, mask={mask})"]

    def returned(self) -> str:
        return "scores"


def scores_piece(call: Attention, site: Site) -> Piece:
    """query @ key.T. Query heads that share a key are rows of one matrix."""
    _, queries, keys, width, _ = call.shape
    shapes = shape_of(call.query), shape_of(call.key)
    extents = {dim: max(shape[axis] for shape in shapes) for axis, dim in enumerate(call.batch)}
    if call.grouped:
        extents[call.batch[-1]] = shapes[1][-3]
        queries *= shapes[0][-3] // shapes[1][-3]
    sides = [
        Operand(node, name, (*_present(call, shape), length, "E"))
        for node, name, length, shape in ((call.query, "x", "L", shapes[0]), (call.key, "y", "S", shapes[1]))
    ]
    product = Contraction(
        left=sides[0],
        right=sides[1],
        batch=call.batch,
        rows=("L",),
        cols=("S",),
        inner=("E",),
        output=(*call.batch, "L", "S"),
        extents={**extents, "L": queries, "S": keys, "E": width},
        formula="x @ y.T",
        dtype=call.dtype,
    )
    own = replace(site, name=f"{site.name}_scores", epilogue=_Scores(call), sizes=product.output)
    piece = render_product(product, own, path_for(product, site.tf32))
    tiles = repr(piece.settings[0]).replace("'", '"')
    return replace(piece, text=piece.text.replace(f'TILES["{own.name}"]', tiles))


def _present(call: Attention, shape: tuple[int, ...]) -> tuple[str | None, ...]:
    return tuple(None if shape[axis] == 1 else dim for axis, dim in enumerate(call.batch))


def wide_text(call: Attention, site: Site) -> str:
    """Values as they are."""
    body = [
        f'"""{site.epilogue.formula(formula_of(call))}, the scores given"""',
        *_place_lines(call),
        *origin_lines(call, ("value",)),
        *state_lines(call),
        "for start in range(0, end, BLOCK_N):",
        *_score_lines(call),
        "    value_ptrs = value_ptr + keys[:, None].to(tl.int64) * value_row_stride + vs[None, :] * value_v_stride",
        "    value = tl.load(value_ptrs, mask=(keys[:, None] < S) & (vs[None, :] < V), other=0.0)",
        f"    acc = tl.dot(weights.to(value.dtype), value, acc * shrink[:, None]{dot_options(call)})",
        *ending_lines(call, site),
    ]
    pairs = [(name, node) for name, node in named(call) if name in ("value", "attn_mask")]
    pointers = ["scores", *(name for name, _ in pairs)]
    strides = [pair for name, node in pairs for pair in plain_strides(call, name, node)]
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_V", "SCALE", *(["PRECISION"] if call.dtype is torch.float32 else [])]
    return assembled(call, site, body, pointers, strides, constants, [_scores_statement(call, site)], _PROGRAMS)


def split_wide_text(call: Attention, site: Site) -> str:
    """fp32 values, and the weights, as sums of two fp16 parts."""
    body = [
        f'"""{site.epilogue.formula(formula_of(call))}, the scores given, values as sums of two fp16 parts"""',
        *_place_lines(call),
        *part_origin(call, "value", call.value),
        *origin_lines(call, ()),
        *state_lines(call),
        "for start in range(0, end, BLOCK_N):",
        *_score_lines(call),
        *(f"    {line}" for line in weight_parts()),
        "    value_offsets = keys[:, None].to(tl.int64) * value_row_stride + vs[None, :] * value_v_stride",
        "    value_high = tl.load(value_high_ptr + value_offsets)",
        "    value_low = tl.load(value_low_ptr + value_offsets)",
        *(f"    {line}" for line in three_dots("part", "weights", "value")),
        "    acc = acc * shrink[:, None] + part",
        "value_scale = tl.load(value_scale_ptr + vs)",
        f"acc = acc * (value_scale * {WEIGHT_UNIT})[None, :]",
        *ending_lines(call, site),
    ]
    pointers = ["scores", "value_high", "value_low", "value_scale"]
    strides = part_strides("value")
    if call.mask is not None:
        pointers.append("attn_mask")
        strides += plain_strides(call, "attn_mask", call.mask)
    statements = [_scores_statement(call, site), split_statement(call, "value")]
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_V", "SCALE"]
    return assembled(call, site, body, pointers, strides, constants, statements, _PROGRAMS)


_PROGRAMS = 'triton.cdiv(L, tiles["BLOCK_M"]) * triton.cdiv(V, tiles["BLOCK_V"])'


def _scores_statement(call: Attention, site: Site) -> str:
    query = "query"
    if call.grouped:
        *outer, heads = call.batch
        query = f"query.reshape({', '.join([*outer, f'{heads} // group', 'group * L', 'E'])})"
    return f"scores = {site.name}_scores({query}, key)"


def _place_lines(call: Attention) -> list[str]:
    """Which rows and which of the value's columns are this program's; neighbours share rows."""
    block = "tl.program_id(0) // v_blocks % blocks"
    return [
        "blocks = tl.cdiv(L, BLOCK_M)",
        "v_blocks = tl.cdiv(V, BLOCK_V)",
        *(["batch = (tl.program_id(0) // (blocks * v_blocks)).to(tl.int64)"] if call.batch else []),
        f"block = {f'blocks - 1 - {block}' if call.causal else block}",
        "rows = block * BLOCK_M + tl.arange(0, BLOCK_M)",
        "vs = tl.program_id(0) % v_blocks * BLOCK_V + tl.arange(0, BLOCK_V)",
    ]


def _score_lines(call: Attention) -> list[str]:
    first = "(batch * L + rows[:, None])" if call.batch else "rows[:, None].to(tl.int64)"
    return [
        "    keys = start + tl.arange(0, BLOCK_N)",
        f"    scores_ptrs = scores_ptr + {first} * S + keys[None, :]",
        "    scores = tl.load(scores_ptrs, mask=(rows[:, None] < L) & (keys[None, :] < S), other=0.0)",
        f"    scores = scores * (SCALE * {LOG2E})",
        *softmax_lines(call, depth=1),
    ]
