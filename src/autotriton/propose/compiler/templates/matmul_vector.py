"""Matrix times vector: bound by reading the matrix once, so plain sums of products and no tensor cores.

A vector on the left is the same with the matrix transposed.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.matmul_contraction import Contraction
from autotriton.propose.compiler.templates.matmul_text import Strided, Tile, finishing_lines, formula, used_sizes
from autotriton.propose.compiler.templates.matmul_tiled import (
    accumulator,
    batches_line,
    both_sides,
    count,
    part,
    single_kernel_text,
    start_lines,
    two_kernels_text,
)
from autotriton.propose.compiler.templates.piece import Site


def vector_text(product: Contraction, site: Site) -> str:
    """One program per BLOCK_R results."""
    sides = both_sides(product)
    extent = _extent(product)
    # The other dimension has size 1: its index is 0 everywhere.
    axes = ["rows = results", "cols = results * 0"] if extent == "M" else ["cols = results", "rows = results * 0"]
    body = [
        f'"""{formula(product, site)}"""',
        *_place_lines(product, extent, split=False),
        *_sum_lines(product, sides, "0", "K"),
        f"mask = results < {extent}",
        *axes,
        *batches_line(product, "(1,)"),
        *finishing_lines(product, site, Tile(rows="rows", cols="cols")),
    ]
    sizes = used_sizes(product, site, body)
    grid = f'({count(product)}triton.cdiv({extent}, tiles["BLOCK_R"]),)'
    return single_kernel_text(product, site, sides, body, sizes, ["BLOCK_R", "BLOCK_K"], grid)


def vector_split_text(product: Contraction, site: Site) -> str:
    """SPLIT_K programs per BLOCK_R results, then a kernel that adds up."""
    sides = both_sides(product)
    extent = _extent(product)
    body = [
        f'"""partial[split] = {product.formula} over that part of K"""',
        *_place_lines(product, extent, split=True),
        *_sum_lines(product, sides, "start", "end"),
        f"tl.store(partial_ptr + {part(product)} * {extent} + results, acc, mask=results < {extent})",
    ]
    grid = [f'grid = ({count(product)}triton.cdiv({extent}, tiles["BLOCK_R"]) * tiles["SPLIT_K"],)']
    return two_kernels_text(product, site, sides, body, ["BLOCK_R", "BLOCK_K", "SPLIT_K"], grid)


def _extent(product: Contraction) -> str:
    """Whether M or N counts the results."""
    return "M" if product.shape[2] == 1 else "N"


def _place_lines(product: Contraction, extent: str, *, split: bool) -> list[str]:
    """Which batch, results and part of K are this program's."""
    lines = [f"blocks = tl.cdiv({extent}, BLOCK_R)"] if split or product.batch else []
    block = "(tl.program_id(0) % blocks)" if lines else "tl.program_id(0)"
    lines.append(f"results = {block}.to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)")
    if not split:
        return [*lines, *(["batch = (tl.program_id(0) // blocks).to(tl.int64)"] if product.batch else [])]
    lines.append("split = (tl.program_id(0) // blocks).to(tl.int64)")
    lines += ["batch = split // SPLIT_K", "split = split % SPLIT_K"] if product.batch else []
    lines.append("length = tl.cdiv(K, SPLIT_K * BLOCK_K) * BLOCK_K")
    return [*lines, "start = split * length", "end = tl.minimum(start + length, K)"]


def _sum_lines(product: Contraction, sides: tuple[Strided, Strided], start: str, end: str) -> list[str]:
    """`acc`: for each result the sum over K, BLOCK_K running sums at a time."""
    extent, kind = _extent(product), accumulator(product)
    matrix, vector = sides if extent == "M" else (sides[1], sides[0])
    axis = "row" if extent == "M" else "col"
    wide, narrow = matrix.operand.name, vector.operand.name
    return [
        *matrix.origin(product.batch),
        *vector.origin(product.batch),
        *(start_lines(sides) if start != "0" else []),
        "ks = tl.arange(0, BLOCK_K)",
        f"{wide}_ptrs = {matrix.pointer}"
        f" + results[:, None] * {matrix.parameter(axis)} + ks[None, :].to(tl.int64) * {matrix.parameter('k')}",
        f"{narrow}_ptrs = {vector.pointer} + ks.to(tl.int64) * {vector.parameter('k')}",
        f"sums = tl.zeros((BLOCK_R, BLOCK_K), dtype={kind})",
        f"for k in range({start}, {end}, BLOCK_K):",
        f"    {wide} = tl.load({wide}_ptrs, mask=(results[:, None] < {extent}) & (ks[None, :] < {end} - k), other=0.0)",
        f"    {narrow} = tl.load({narrow}_ptrs, mask=ks < {end} - k, other=0.0)",
        f"    sums += {wide}.to({kind}) * {narrow}.to({kind})[None, :]",
        f"    {wide}_ptrs += BLOCK_K * {matrix.parameter('k')}",
        f"    {narrow}_ptrs += BLOCK_K * {vector.parameter('k')}",
        "acc = tl.sum(sums, axis=1)",
    ]
