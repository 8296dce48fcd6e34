"""Attention in one kernel: scores are made tile by tile and never reach memory.

The running maximum and sum of each row let what was summed before be rescaled when a larger score comes. Two forms:
operands as they are, or (fp32, where it pays) split into two fp16 parts each beforehand, see `split.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates.attention_call import (
    Attention,
    batch_terms,
    formula_of,
    scale_text,
    size_lines,
)
from autotriton.propose.compiler.templates.matmul_text import indented, listed, unravelled
from autotriton.propose.compiler.templates.piece import Site, shape_of

LOG2E = "1.4426950408889634"


def flash_text(call: Attention, site: Site) -> str:
    """Operands as they are."""
    body = [
        f'"""{site.epilogue.formula(formula_of(call))}, tile by tile: scores stay in registers"""',
        *_block_lines(call),
        *origin_lines(call, ("query", "key", "value")),
        "es = tl.arange(0, BLOCK_E)",
        "vs = tl.arange(0, BLOCK_V)",
        "query_ptrs = query_ptr + rows[:, None].to(tl.int64) * query_row_stride + es[None, :] * query_e_stride",
        "query = tl.load(query_ptrs, mask=(rows[:, None] < L) & (es[None, :] < E), other=0.0)",
        *state_lines(call),
        "for start in range(0, end, BLOCK_N):",
        "    keys = start + tl.arange(0, BLOCK_N)",
        "    key_ptrs = key_ptr + keys[None, :].to(tl.int64) * key_row_stride + es[:, None] * key_e_stride",
        "    key = tl.load(key_ptrs, mask=(keys[None, :] < S) & (es[:, None] < E), other=0.0)",
        f"    scores = tl.dot(query, key{dot_options(call)}) * (SCALE * {LOG2E})",
        *softmax_lines(call, depth=1),
        "    value_ptrs = value_ptr + keys[:, None].to(tl.int64) * value_row_stride + vs[None, :] * value_v_stride",
        "    value = tl.load(value_ptrs, mask=(keys[:, None] < S) & (vs[None, :] < V), other=0.0)",
        f"    acc = tl.dot(weights.to(value.dtype), value, acc * shrink[:, None]{dot_options(call)})",
        *ending_lines(call, site),
    ]
    strides = [pair for name, node in named(call) for pair in plain_strides(call, name, node)]
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_E", "BLOCK_V", "SCALE"]
    constants += ["PRECISION"] if call.dtype is torch.float32 else []
    return assembled(call, site, body, call.names, strides, constants, [])


def split_flash_text(call: Attention, site: Site) -> str:
    """fp32 operands as sums of two fp16 parts, padded to whole tiles."""
    body = [
        f'"""{site.epilogue.formula(formula_of(call))}, tile by tile, operands as sums of two fp16 parts"""',
        *_block_lines(call),
        *_part_lines(call),
        *state_lines(call),
        "for start in range(0, end, BLOCK_N):",
        "    keys = start + tl.arange(0, BLOCK_N)",
        "    key_offsets = keys[None, :].to(tl.int64) * key_row_stride + es[:, None] * key_e_stride",
        "    key_high = tl.load(key_high_ptr + key_offsets)",
        "    key_low = tl.load(key_low_ptr + key_offsets)",
        "    key_scale = tl.load(key_scale_ptr + keys)",
        *(f"    {line}" for line in three_dots("scores", "query", "key")),
        f"    scores = scores * query_scale[:, None] * (key_scale * (SCALE * {LOG2E}))[None, :]",
        *softmax_lines(call, depth=1),
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
    pointers = [f"{name}_{what}" for name in ("query", "key", "value") for what in ("high", "low", "scale")]
    strides = [pair for name in ("query", "key", "value") for pair in part_strides(name)]
    if call.mask is not None:
        pointers.append("attn_mask")
        strides += plain_strides(call, "attn_mask", call.mask)
    statements = [split_statement(call, name) for name, _ in named(call)[:3]]
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_E", "BLOCK_V", "SCALE"]
    return assembled(call, site, body, pointers, strides, constants, statements)


WEIGHT_UNIT = "2.0**-14"
"""Softmax weights are at most 1: 2^14 brings them where fp16 parts are most precise."""


def weight_parts() -> list[str]:
    return ["weights_high, weights_low = fp16_parts(weights * 16384.0)"]


def three_dots(result: str, left: str, right: str) -> list[str]:
    return [
        f"{result} = tl.dot({left}_low, {right}_high)",
        f"{result} = tl.dot({left}_high, {right}_low, {result})",
        f"{result} = tl.dot({left}_high, {right}_high, {result})",
    ]


def softmax_lines(call: Attention, depth: int) -> list[str]:
    """From `scores` (in powers of two) to `weights`, and by how much earlier sums `shrink`."""
    inside = "keys[None, :] < S"
    lines = []
    if call.mask is not None:
        place = (
            "attn_mask_ptr + rows[:, None].to(tl.int64) * attn_mask_row_stride + keys[None, :] * attn_mask_key_stride"
        )
        lines.append(f"mask = tl.load({place}, mask=(rows[:, None] < L) & ({inside}), other=0)")
        if call.mask_is_bool:
            inside = f"({inside}) & (mask != 0)"
        else:
            lines.append(f"scores += mask.to(scores.dtype) * {LOG2E}")
    if call.causal:
        inside = f"({inside}) & (keys[None, :] <= rows[:, None])"
    lines += [
        f'scores = tl.where({inside}, scores, float("-inf"))',
        "largest_now = tl.maximum(largest, tl.max(scores, axis=1))",
        "# A row without any key yet has no largest score to subtract.",
        'base = tl.where(largest_now == float("-inf"), 0.0, largest_now)',
        "weights = tl.exp2(scores - base[:, None])",
        "shrink = tl.exp2(largest - base)",
        "total = total * shrink + tl.sum(weights, axis=1)",
        "largest = largest_now",
    ]
    return ["    " * depth + line for line in lines]


def _block_lines(call: Attention) -> list[str]:
    lines = ["blocks = tl.cdiv(L, BLOCK_M)"]
    lines += ["batch = (tl.program_id(0) // blocks).to(tl.int64)"] if call.batch else []
    if call.causal:
        lines += [
            "# The last rows have the most keys: they start first.",
            "block = blocks - 1 - tl.program_id(0) % blocks",
        ]
    else:
        lines.append("block = tl.program_id(0) % blocks")
    return [*lines, "rows = block * BLOCK_M + tl.arange(0, BLOCK_M)"]


def origin_lines(call: Attention, names: Sequence[str]) -> list[str]:
    """Moves pointers to this program's matrices."""
    found = [(name, batch_terms(call, name, node)[2]) for name, node in named(call) if name in (*names, "attn_mask")]
    return [f"{name}_ptr += {terms}" for name, terms in found if terms]


def _part_lines(call: Attention) -> list[str]:
    """Moves pointers to this program's matrices, and loads the parts of the queries."""
    return [
        *(line for name, node in named(call)[:3] for line in part_origin(call, name, node)),
        *origin_lines(call, ()),
        "es = tl.arange(0, BLOCK_E)",
        "vs = tl.arange(0, BLOCK_V)",
        "query_offsets = rows[:, None].to(tl.int64) * query_row_stride + es[None, :] * query_e_stride",
        "query_high = tl.load(query_high_ptr + query_offsets)",
        "query_low = tl.load(query_low_ptr + query_offsets)",
        "query_scale = tl.load(query_scale_ptr + rows)",
    ]


def part_origin(call: Attention, name: str, node: torch.fx.Node) -> list[str]:
    """Moves pointers to the parts of this program's matrix."""
    index = part_batch(call, name, node)
    if index == "0":
        return []
    moves = [f"{name}_{what}_ptr += {name}_batch * {name}_batch_stride" for what in ("high", "low")]
    return [f"{name}_batch = {index}", *moves, f"{name}_scale_ptr += {name}_batch * {name}_scale_stride"]


def part_batch(call: Attention, name: str, node: torch.fx.Node) -> str:
    """Flat index among the matrices of one tensor, which has fewer where heads are shared or dimensions broadcast."""
    if not (call.grouped and name != "query") and 1 not in shape_of(node)[: len(call.batch)]:
        return "batch" if call.batch else "0"
    text = ""
    for axis, (dim, index) in enumerate(zip(call.batch, unravelled("batch", call.batch), strict=True)):
        if shape_of(node)[axis] == 1:
            continue
        shared = call.grouped and name != "query" and axis == len(call.batch) - 1
        index, size = (f"{index} // group", f"({dim} // group)") if shared else (index, dim)
        text = f"({text}) * {size} + {index}" if text else index
    return text or "0"


def split_statement(call: Attention, name: str) -> str:
    """`key_high, key_low, key_scale = split_rows(key, ...)`; values column by column."""
    view = name
    if len(call.batch) > 2:
        view = f"{name}.flatten(0, {len(call.batch) - 1})"
    if name == "value":
        view = f"{view}.transpose(-1, -2)"
    blocks = {"query": ("M", "E"), "key": ("N", "E"), "value": ("V", "N")}[name]
    parts = ", ".join(f"{name}_{what}" for what in ("high", "low", "scale"))
    return f'{parts} = split_rows({view}, tiles["BLOCK_{blocks[0]}"], tiles["BLOCK_{blocks[1]}"])'


def part_strides(name: str) -> list[tuple[str, str]]:
    """Stride parameters of an operand's parts, and what the wrapper passes."""
    row, last = _axes(name)
    axes = (2, 1) if name == "value" else (1, 2)
    return [
        (f"{name}_batch_stride", f"{name}_high.stride(0)"),
        (f"{name}_scale_stride", f"{name}_scale.stride(0)"),
        (f"{name}_{row}_stride", f"{name}_high.stride({axes[0]})"),
        (f"{name}_{last}_stride", f"{name}_high.stride({axes[1]})"),
    ]


def plain_strides(call: Attention, name: str, node: torch.fx.Node) -> list[tuple[str, str]]:
    parameters, arguments, _ = batch_terms(call, name, node)
    row, last = _axes(name)
    ends = [(f"{name}_{row}_stride", f"{name}.stride(-2)"), (f"{name}_{last}_stride", f"{name}.stride(-1)")]
    return [*zip(parameters, arguments, strict=True), *ends]


def state_lines(call: Attention) -> list[str]:
    kind = "tl.float64" if call.dtype is torch.float64 else "tl.float32"
    end = "tl.minimum(S, (block + 1) * BLOCK_M)" if call.causal else "S"
    return [
        f'largest = tl.full((BLOCK_M,), float("-inf"), dtype={kind})',
        f"total = tl.zeros((BLOCK_M,), dtype={kind})",
        f"acc = tl.zeros((BLOCK_M, BLOCK_V), dtype={kind})",
        f"end = {end}",
    ]


def ending_lines(call: Attention, site: Site) -> list[str]:
    batches = ["batches = batch + tl.zeros((1, 1), dtype=tl.int64)"] if call.batch else []
    index = [*unravelled("batches", call.batch), "rows[:, None].to(tl.int64)", "vs[None, :]"]
    ending = ["acc = acc / total[:, None]"]
    if call.empty_is_zero:
        ending = [
            "# A row whose keys are all masked is zero, as in torch.",
            "acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]",
        ]
    return [
        *ending,
        *batches,
        "mask = (rows[:, None] < L) & (vs[None, :] < V)",
        *site.epilogue.lines("acc", index, "mask"),
    ]


def assembled(
    call: Attention,
    site: Site,
    body: list[str],
    pointers: Sequence[str],
    strides: Sequence[tuple[str, str]],
    constants: Sequence[str],
    statements: Sequence[str],
    programs: str = 'triton.cdiv(L, tiles["BLOCK_M"])',
) -> str:
    """The kernel and its wrapper; `programs` is how many there are per matrix."""
    words = set(re.findall(r"\w+", "\n".join(body)))
    given = set(site.epilogue.parameters())
    sizes = [name for name in (*call.batch, "L", "S", "E", "V", "group") if name in words and name not in given]
    used = [(name, text) for name, text in strides if name in words]
    parameters = [
        *(f"{name}_ptr" for name in pointers),
        *sizes,
        *(name for name, _ in used),
        *site.epilogue.parameters(),
    ]
    parameters += [f"{name}: tl.constexpr" for name in constants]
    arguments = [*pointers, *sizes, *(text for _, text in used), *site.epilogue.arguments()]
    arguments += [f"SCALE={scale_text(call)}", "**tiles"]
    batch = f"{' * '.join(call.batch)} * " if call.batch else ""
    wrapper = [
        *size_lines(call),
        f'tiles = TILES["{site.name}"]',
        *statements,
        *site.epilogue.allocations(),
        f"grid = ({batch}{programs},)",
        listed(f"{site.name}_kernel[grid]", arguments, ""),
        f"return {site.epilogue.returned()}",
    ]
    kernel = listed(f"@triton.jit\ndef {site.name}_kernel", parameters, ":") + "\n" + indented(body)
    head = listed(f"def {site.name}", [*call.names, *site.epilogue.operands()], ":")
    return f"{kernel}\n\n\n{head}\n{indented(wrapper)}\n"


def named(call: Attention) -> list[tuple[str, torch.fx.Node]]:
    return list(zip(call.names, call.nodes, strict=True))


def _axes(name: str) -> tuple[str, str]:
    """Names of the last two strides."""
    return "row", {"query": "e", "key": "e", "value": "v", "attn_mask": "key"}[name]


def dot_options(call: Attention) -> str:
    if call.dtype is torch.float64:
        return ", out_dtype=tl.float64"
    return ", input_precision=PRECISION" if call.dtype is torch.float32 else ""
