"""Kernels that compute element by element: one flat index where all tensors are walked alike, else rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates.axes import flat
from autotriton.propose.compiler.templates.body import Body, Operands, strides
from autotriton.propose.compiler.templates.cluster import Cluster
from autotriton.propose.compiler.templates.layout import Draft
from autotriton.propose.compiler.templates.loops import (
    Loops,
    decomposition,
    inner_sizes,
    loops_of,
    number_arguments,
    total,
)
from autotriton.propose.compiler.templates.piece import Piece, Setting
from autotriton.propose.compiler.templates.sizes import Sizes

_FLAT: tuple[Setting, ...] = tuple(
    {"BLOCK": block, "num_warps": warps} for block, warps in ((1024, 4), (2048, 8), (4096, 8), (512, 4), (2048, 4))
)


def render(cluster: Cluster, operands: Operands, outputs: Sequence[torch.fx.Node], name: str, formula: str) -> Piece:
    names = [(node, operands.names.unique("out")) for node in outputs]
    loops = loops_of(cluster, operands, outputs, flat(cluster.frame), ())
    sizes = Sizes(operands.walked, computed=operands.computed())
    draft = Draft(name, formula, operands, sizes, [(out, node.meta["val"], cluster.dims[node]) for node, out in names])
    if not loops.rows:
        return _flat(cluster, operands, names, loops, draft)
    return _tiled(cluster, operands, names, loops, draft)


def _flat(
    cluster: Cluster, operands: Operands, outputs: list[tuple[torch.fx.Node, str]], loops: Loops, draft: Draft
) -> Piece:
    index, mask = "offsets", "mask"
    for group in loops.columns:
        group.index = index
    body = Body(cluster, operands, loops.columns, lambda axes: mask if axes else "")
    _members(cluster, body, outputs)
    head = [
        "offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < n_elements",
    ]
    draft.size("n_elements", total(loops.columns, draft.sizes))
    draft.more(number_arguments(operands), strides(operands, loops.columns, "\n".join(body.lines)))
    return draft.piece([*head, *body.lines], ["BLOCK"], '(triton.cdiv(n_elements, tiles["BLOCK"]),)', _FLAT)


def _tiled(
    cluster: Cluster, operands: Operands, outputs: list[tuple[torch.fx.Node, str]], loops: Loops, draft: Draft
) -> Piece:
    body = Body(cluster, operands, loops.groups, loops.mask_of, loops.rows, "row")
    _members(cluster, body, outputs)
    text = "\n".join(body.lines)
    head = [
        "row = (tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]",
        "col = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]",
        "row_mask = row < n_rows",
        "col_mask = col < n_cols",
        "mask = row_mask & col_mask",
        *decomposition(loops.rows, "row", text),
    ]
    draft.size("n_rows", total(loops.rows, draft.sizes))
    draft.size("n_cols", total(loops.columns, draft.sizes))
    draft.constants(inner_sizes(loops, draft.sizes, "\n".join([*head, text])))
    draft.more(number_arguments(operands), strides(operands, loops.groups, text))
    grid = '(triton.cdiv(n_rows, tiles["BLOCK_R"]), triton.cdiv(n_cols, tiles["BLOCK_C"]))'
    return draft.piece([*head, *body.lines], ["BLOCK_R", "BLOCK_C"], grid, _tiles(loops))


def _tiles(loops: Loops) -> tuple[Setting, ...]:
    """Tiles of about 2048 elements, as wide as the columns allow."""
    columns = 1 << max(0, math.ceil(math.log2(math.prod(group.size for group in loops.columns))))
    found: list[Setting] = []
    for elements, widest, warps in ((2048, 1024, 4), (4096, 2048, 8), (2048, 128, 4), (1024, 32, 4), (4096, 64, 8)):
        width = min(widest, columns)
        found.append({"BLOCK_R": max(1, elements // width), "BLOCK_C": width, "num_warps": warps})
    return tuple({str(setting): setting for setting in found}.values())


def _members(cluster: Cluster, body: Body, outputs: list[tuple[torch.fx.Node, str]]) -> None:
    for member in cluster.members:
        body.member(member)
    body.stores(outputs)
