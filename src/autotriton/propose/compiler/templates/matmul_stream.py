"""fp32 products of a large matrix with a small one: the large one is split into fp16 parts on its way through.

Each of its elements is used once or twice, so that splitting it beforehand would cost more than the product. A program
takes tiles of it as they are, gives every row of a tile its own scale, and multiplies with the parts of the small
matrix, which were made before. The large matrix is always on the left here: its parts then stay in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotriton.propose.compiler.templates.matmul_contraction import Contraction, Operand
from autotriton.propose.compiler.templates.matmul_presplit import split_statement
from autotriton.propose.compiler.templates.matmul_text import (
    Strided,
    Tile,
    addend_arguments,
    addend_parameters,
    addend_statement,
    finishing_lines,
    formula,
    listed,
    own_names,
    size_lines,
    strided,
    used_sizes,
)
from autotriton.propose.compiler.templates.matmul_tiled import kernel_text, wrapper_text
from autotriton.propose.compiler.templates.piece import Site


def stream_text(product: Contraction, site: Site) -> str:
    """One program per BLOCK_R rows of the large matrix and BLOCK_C of the small one's."""
    roles = _roles(product)
    wide, narrow = roles.large.operand.name, roles.small.name
    places, others = ("rows", "cols") if roles.extent == "M" else ("cols", "rows")
    tile = (
        Tile("", "rows[:, None]", "cols[None, :]")
        if roles.extent == "M"
        else Tile("", "rows[None, :]", "cols[:, None]")
    )
    body = [
        f'"""{formula(product, site)}, {wide} split into two fp16 parts as it is read"""',
        f"blocks = tl.cdiv({roles.other}, BLOCK_C)",
        f"{places} = (tl.program_id(0) // blocks).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)",
        f"{others} = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)",
        "ks = tl.arange(0, BLOCK_K)",
        f"{wide}_ptrs = {wide}_ptr + {places}[:, None] * {wide}_row_stride"
        f" + ks[None, :].to(tl.int64) * {wide}_k_stride",
        f"{narrow}_offsets = {others}[None, :] * {narrow}_row_stride + ks[:, None] * {narrow}_k_stride",
        f"{narrow}_high_ptrs = {narrow}_high_ptr + {narrow}_offsets",
        f"{narrow}_low_ptrs = {narrow}_low_ptr + {narrow}_offsets",
        *_loop_lines(wide, narrow, f"{places}[:, None] < {roles.extent}"),
        f"acc = acc * tl.load({narrow}_scale_ptr + {others})[None, :]",
        f"mask = ({tile.rows} < M) & ({tile.cols} < N)",
        *finishing_lines(product, site, tile),
    ]
    sizes = used_sizes(product, site, body)
    parameters = [
        f"{wide}_ptr",
        *(f"{narrow}_{what}_ptr" for what in ("high", "low", "scale")),
        *(f"{name}_ptr" for name in own_names(product)[2:]),
        *sizes,
        *(f"{name}_{axis}_stride" for name in (wide, narrow) for axis in ("row", "k")),
        *addend_parameters(product),
        *site.epilogue.parameters(),
        *(f"{name}: tl.constexpr" for name in ("BLOCK_R", "BLOCK_C", "BLOCK_K")),
    ]
    return f"{kernel_text(f'{site.name}_kernel', parameters, body)}\n\n\n{_wrapper(product, site, roles, sizes)}"


@dataclass(frozen=True)
class _Roles:
    large: Strided
    small: Operand
    extent: str
    """`M` or `N`: which of them counts the large matrix's rows."""
    other: str
    axis: str
    """What the large matrix's rows are called among its strides."""


def _roles(product: Contraction) -> _Roles:
    _, m, n, _ = product.shape
    if n >= m:
        return _Roles(strided(product, product.right, "N", "col"), product.left, "N", "M", "col")
    return _Roles(strided(product, product.left, "M", "row"), product.right, "M", "N", "row")


def _wrapper(product: Contraction, site: Site, roles: _Roles, sizes: list[str]) -> str:
    large, narrow = roles.large, roles.small.name
    arguments = [
        large.operand.name,
        *(f"{narrow}_{what}" for what in ("high", "low", "scale")),
        *own_names(product)[2:],
        *sizes,
        *(large.strides[roles.axis], large.strides["k"]),
        *(f"{narrow}_high.stride(1)", f"{narrow}_high.stride(2)"),
        *addend_arguments(product),
        *site.epilogue.arguments(),
        "**tiles",
    ]
    body = [
        *size_lines(product),
        *([large.statement] if large.statement is not None else []),
        *addend_statement(product),
        f'tiles = TILES["{site.name}"]',
        split_statement(product, roles.small, roles.other, "BLOCK_C"),
        *site.epilogue.allocations(),
        f'grid = (triton.cdiv({roles.extent}, tiles["BLOCK_R"]) * triton.cdiv({roles.other}, tiles["BLOCK_C"]),)',
        listed(f"{site.name}_kernel[grid]", arguments, ""),
        f"return {site.epilogue.returned()}",
    ]
    return wrapper_text(product, site, body)


def _loop_lines(wide: str, narrow: str, inside: str) -> list[str]:
    return [
        "acc = tl.zeros((BLOCK_R, BLOCK_C), dtype=tl.float32)",
        "for k in range(0, K, BLOCK_K):",
        f"    {wide} = tl.load({wide}_ptrs, mask=({inside}) & (ks[None, :] < K - k), other=0.0)",
        f"    {narrow}_high = tl.load({narrow}_high_ptrs)",
        f"    {narrow}_low = tl.load({narrow}_low_ptrs)",
        f"    scale = fp16_scale(tl.max(finite_magnitude({wide}), axis=1))",
        f"    {wide}_high, {wide}_low = fp16_parts({wide} * scale[:, None])",
        f"    part = tl.dot({wide}_low, {narrow}_high)",
        f"    part = tl.dot({wide}_high, {narrow}_low, part)",
        f"    part = tl.dot({wide}_high, {narrow}_high, part)",
        "    acc += part * (1.0 / scale)[:, None]",
        f"    {wide}_ptrs += BLOCK_K * {wide}_k_stride",
        f"    {narrow}_high_ptrs += BLOCK_K * {narrow}_k_stride",
        f"    {narrow}_low_ptrs += BLOCK_K * {narrow}_k_stride",
    ]
