"""fp32 products on the tensor cores: both operands are split into two fp16 parts first, three products per step.

Pays where every element is used often: the split costs two passes over the operands, the product runs at about three
times the speed of fp32 arithmetic, with fp32's accuracy (see `split.py`).
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.matmul_contraction import Contraction, Operand
from autotriton.propose.compiler.templates.matmul_text import (
    Tile,
    addend_arguments,
    addend_parameters,
    addend_statement,
    finishing_lines,
    formula,
    listed,
    own_names,
    size_lines,
    used_sizes,
)
from autotriton.propose.compiler.templates.matmul_tiled import (
    BLOCKS,
    batches_line,
    count,
    kernel_text,
    tile_lines,
    wrapper_text,
)
from autotriton.propose.compiler.templates.piece import Site


def can_presplit(product: Contraction) -> bool:
    """Each operand has all batch dimensions or none, so that one index finds its matrix."""
    batch = set(product.batch)
    return all(batch <= set(side.dims) or not batch & set(side.dims) for side in (product.left, product.right))


def presplit_text(product: Contraction, site: Site) -> str:
    """One program per tile of the output, over operands padded to whole tiles: no masks in the loop."""
    left, right = product.left.name, product.right.name
    body = [
        f'"""{formula(product, site)}, with {left} and {right} as sums of two fp16 parts"""',
        *tile_lines(product),
        "ks = tl.arange(0, BLOCK_K)",
        *_offset_lines(product, product.left, "rows[:, None]", "ks[None, :]"),
        *_offset_lines(product, product.right, "cols[None, :]", "ks[:, None]"),
        *_loop_lines(left, right),
        *_scale_lines(product),
        "mask = (rows[:, None] < M) & (cols[None, :] < N)",
        *batches_line(product),
        *finishing_lines(product, site, Tile()),
    ]
    sizes = used_sizes(product, site, body)
    parameters = [
        *(f"{side}_{what}_ptr" for side in (left, right) for what in ("high", "low", "scale")),
        *(f"{name}_ptr" for name in own_names(product)[2:]),
        *(*sizes, "padded_k"),
        *(name for operand in (product.left, product.right) for name in _stride_parameters(product, operand)),
        *addend_parameters(product),
        *site.epilogue.parameters(),
        *(f"{name}: tl.constexpr" for name in (*BLOCKS, "FLUSH")),
    ]
    kernel = kernel_text(f"{site.name}_kernel", parameters, body)
    return f"{kernel}\n\n\n{_wrapper(product, site, sizes)}"


def _wrapper(product: Contraction, site: Site, sizes: list[str]) -> str:
    left, right = product.left.name, product.right.name
    arguments = [
        *(f"{side}_{what}" for side in (left, right) for what in ("high", "low", "scale")),
        *own_names(product)[2:],
        *(*sizes, f"{left}_high.shape[2]"),
        *(text for operand in (product.left, product.right) for text in _stride_arguments(product, operand)),
        *addend_arguments(product),
        *site.epilogue.arguments(),
        "**tiles",
    ]
    body = [
        *size_lines(product),
        *addend_statement(product),
        f'tiles = TILES["{site.name}"]',
        split_statement(product, product.left, "M", "BLOCK_M"),
        split_statement(product, product.right, "N", "BLOCK_N"),
        *site.epilogue.allocations(),
        f'grid = ({count(product)}triton.cdiv(M, tiles["BLOCK_M"]) * triton.cdiv(N, tiles["BLOCK_N"]),)',
        listed(f"{site.name}_kernel[grid]", arguments, ""),
        f"return {site.epilogue.returned()}",
    ]
    return wrapper_text(product, site, body)


def split_statement(product: Contraction, operand: Operand, extent: str, block: str) -> str:
    """`x_high, x_low, x_scale = split_rows(x as [batch..., rows, k], ...)`."""
    own = product.rows if extent == "M" else product.cols
    batch = _batch(product, operand)
    order = [axis for axis, dim in enumerate(operand.dims) if dim is None]
    order += [operand.dims.index(dim) for dim in (*batch, *own, *product.inner)]
    view = operand.name if order == sorted(order) else f"{operand.name}.permute({', '.join(map(str, order))})"
    if len(order) != len(batch) + 2 or len(own) != 1 or len(product.inner) != 1 or len(batch) > 2:
        leading = batch if len(batch) <= 2 else (" * ".join(batch),)
        view = f"{view}.reshape({', '.join([*leading, extent, 'K'])})"
    parts = ", ".join(f"{operand.name}_{what}" for what in ("high", "low", "scale"))
    return f'{parts} = split_rows({view}, tiles["{block}"], tiles["BLOCK_K"])'


def _batch(product: Contraction, operand: Operand) -> tuple[str, ...]:
    return tuple(dim for dim in product.batch if dim in operand.dims)


def _stride_parameters(product: Contraction, operand: Operand) -> list[str]:
    batch = [f"{operand.name}_batch_stride", f"{operand.name}_scale_stride"] if _batch(product, operand) else []
    return [*batch, f"{operand.name}_row_stride", f"{operand.name}_k_stride"]


def _stride_arguments(product: Contraction, operand: Operand) -> list[str]:
    high = f"{operand.name}_high"
    batch = [f"{high}.stride(0)", f"{operand.name}_scale.stride(0)"] if _batch(product, operand) else []
    return [*batch, f"{high}.stride(1)", f"{high}.stride(2)"]


def _offset_lines(product: Contraction, operand: Operand, places: str, ks: str) -> list[str]:
    name = operand.name
    batch = f"batch * {name}_batch_stride + " if _batch(product, operand) else ""
    return [
        f"{name}_offsets = {batch}{places} * {name}_row_stride + {ks} * {name}_k_stride",
        f"{name}_high_ptrs = {name}_high_ptr + {name}_offsets",
        f"{name}_low_ptrs = {name}_low_ptr + {name}_offsets",
    ]


def _loop_lines(left: str, right: str) -> list[str]:
    loads = [f"    {side}_{what} = tl.load({side}_{what}_ptrs)" for side in (left, right) for what in ("high", "low")]
    moves = [
        f"    {side}_{what}_ptrs += BLOCK_K * {side}_k_stride" for side in (left, right) for what in ("high", "low")
    ]
    return [
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for step in range(padded_k // BLOCK_K):",
        *loads,
        f"    part = tl.dot({left}_low, {right}_high, part)",
        f"    part = tl.dot({left}_high, {right}_low, part)",
        f"    part = tl.dot({left}_high, {right}_high, part)",
        "    # The tensor core truncates as it accumulates: sums move to an accumulator that rounds.",
        "    if step % FLUSH == FLUSH - 1:",
        "        acc += part",
        "        part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        *moves,
    ]


def _scale_lines(product: Contraction) -> list[str]:
    lines = []
    for operand, places in ((product.left, "rows"), (product.right, "cols")):
        batch = f"batch * {operand.name}_scale_stride + " if _batch(product, operand) else ""
        lines.append(f"{operand.name}_scale = tl.load({operand.name}_scale_ptr + {batch}{places})")
    # One after the other: the product of both may be too small for a number.
    scales = f"{product.left.name}_scale[:, None] * {product.right.name}_scale[None, :]"
    return [*lines, f"acc = (acc + part) * {scales}"]
