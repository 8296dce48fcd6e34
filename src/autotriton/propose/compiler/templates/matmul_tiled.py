"""A product tile by tile in one kernel, and with K split over programs where there are too few tiles to fill a GPU.

Split sums meet in a second kernel instead of atomics, so that the result is the same in every run.
"""

from __future__ import annotations

import torch

from autotriton.propose.compiler.templates.matmul_contraction import Contraction
from autotriton.propose.compiler.templates.matmul_text import (
    ACCUMULATOR,
    Strided,
    Tile,
    addend_arguments,
    addend_parameters,
    addend_statement,
    finishing_lines,
    formula,
    indented,
    listed,
    own_names,
    size_lines,
    strided,
    used_sizes,
)
from autotriton.propose.compiler.templates.piece import Site

BLOCKS = ["BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"]


def tiled_text(product: Contraction, site: Site) -> str:
    """One program per tile of the output."""
    sides = both_sides(product)
    body = [
        f'"""{formula(product, site)}"""',
        *tile_lines(product),
        *_pointer_lines(product, sides),
        f"acc = tl.zeros((BLOCK_M, BLOCK_N), dtype={accumulator(product)})",
        "for k in range(0, K, BLOCK_K):",
        *_step_lines(product, sides, "K - k"),
        "mask = (rows[:, None] < M) & (cols[None, :] < N)",
        *batches_line(product),
        *finishing_lines(product, site, Tile()),
    ]
    sizes = used_sizes(product, site, body)
    constants = [*BLOCKS, *_precision(product)]
    grid = f'({count(product)}triton.cdiv(M, tiles["BLOCK_M"]) * triton.cdiv(N, tiles["BLOCK_N"]),)'
    return single_kernel_text(product, site, sides, body, sizes, constants, grid)


def single_kernel_text(
    product: Contraction,
    site: Site,
    sides: tuple[Strided, Strided],
    body: list[str],
    sizes: list[str],
    constants: list[str],
    grid: str,
) -> str:
    """A kernel that does everything, and its wrapper."""
    parameters = [
        *(f"{name}_ptr" for name in own_names(product)),
        *sizes,
        *(name for side in sides for name in side.parameters()),
        *addend_parameters(product),
        *site.epilogue.parameters(),
        *(f"{name}: tl.constexpr" for name in constants),
    ]
    arguments = [
        *own_names(product),
        *sizes,
        *(argument for side in sides for argument in side.arguments()),
        *addend_arguments(product),
        *site.epilogue.arguments(),
        "**tiles",
    ]
    wrapper = [
        *prelude(product, sides),
        *site.epilogue.allocations(),
        f'tiles = TILES["{site.name}"]',
        f"grid = {grid}",
        listed(f"{site.name}_kernel[grid]", arguments, ""),
        f"return {site.epilogue.returned()}",
    ]
    return f"{kernel_text(f'{site.name}_kernel', parameters, body)}\n\n\n{wrapper_text(product, site, wrapper)}"


def split_k_text(product: Contraction, site: Site) -> str:
    """SPLIT_K programs per tile, each over its part of K, then a kernel that adds the parts up and does the rest."""
    sides = both_sides(product)
    body = [
        f'"""partial[split] = {product.formula} over that part of K"""',
        *_split_lines(product),
        *start_lines(sides),
        *_pointer_lines(product, sides),
        f"acc = tl.zeros((BLOCK_M, BLOCK_N), dtype={accumulator(product)})",
        "for k in range(start, end, BLOCK_K):",
        *_step_lines(product, sides, "end - k"),
        "mask = (rows[:, None] < M) & (cols[None, :] < N)",
        f"tl.store(partial_ptr + {part(product)} * M * N + rows[:, None] * N + cols[None, :], acc, mask=mask)",
    ]
    constants = [*BLOCKS, "SPLIT_K", *_precision(product)]
    grid = [
        'tile_count = triton.cdiv(M, tiles["BLOCK_M"]) * triton.cdiv(N, tiles["BLOCK_N"])',
        f'grid = ({count(product)}tile_count * tiles["SPLIT_K"],)',
    ]
    return two_kernels_text(product, site, sides, body, constants, grid)


def two_kernels_text(
    product: Contraction,
    site: Site,
    sides: tuple[Strided, Strided],
    body: list[str],
    constants: list[str],
    grid: list[str],
) -> str:
    """The kernel that sums over parts of K, the one that adds the parts up, and their wrapper."""
    sizes = ["M", "N", "K", *product.batch[1:], *(["n_batches"] if product.batch else [])]
    parameters = [
        *(side.pointer for side in sides),
        "partial_ptr",
        *sizes,
        *(name for side in sides for name in side.parameters()),
        *(f"{name}: tl.constexpr" for name in constants),
    ]
    arguments = [
        product.left.name,
        product.right.name,
        "partial",
        *sizes,
        *(argument for side in sides for argument in side.arguments()),
        "**tiles",
    ]
    dtype = "torch.float64" if product.dtype is torch.float64 else "torch.float32"
    shape = ", ".join(['tiles["SPLIT_K"]', *product.batch, "M", "N"])
    total, final_arguments = _sum_kernel(product, site)
    wrapper = [
        *prelude(product, sides),
        *([f"n_batches = {' * '.join(product.batch)}"] if product.batch else []),
        f'tiles = TILES["{site.name}"]',
        f"partial = torch.empty(({shape}), dtype={dtype}, device={product.left.name}.device)",
        *grid,
        listed(f"{site.name}_partial_kernel[grid]", arguments, ""),
        *site.epilogue.allocations(),
        f"n_outputs = {count(product)}M * N",
        listed(f"{site.name}_kernel[(triton.cdiv(n_outputs, 256),)]", final_arguments, ""),
        f"return {site.epilogue.returned()}",
    ]
    partial = kernel_text(f"{site.name}_partial_kernel", parameters, body)
    return "\n\n\n".join([partial, total, wrapper_text(product, site, wrapper)])


def _sum_kernel(product: Contraction, site: Site) -> tuple[str, list[str]]:
    """Adds the parts of a split sum and does everything that follows; and what it is launched with."""
    body = [
        f'"""{formula(product, site)}, the product as the sum of its parts"""',
        "place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "mask = place < n_outputs",
        f"acc = tl.zeros((BLOCK,), dtype={accumulator(product)})",
        "for split in range(n_splits):",
        "    acc += tl.load(partial_ptr + split * n_outputs + place, mask=mask, other=0.0)",
        *(["batch = place // N // M"] if product.batch else []),
        f"rows = place // N{' % M' if product.batch else ''}",
        "cols = place % N",
        *finishing_lines(product, site, Tile("batch", "rows", "cols")),
    ]
    sizes = used_sizes(product, site, body)
    parameters = [
        "partial_ptr",
        *(f"{name}_ptr" for name in own_names(product)[2:]),
        *("n_splits", "n_outputs", *sizes),
        *addend_parameters(product),
        *site.epilogue.parameters(),
        "BLOCK: tl.constexpr",
    ]
    arguments = [
        "partial",
        *own_names(product)[2:],
        *("partial.shape[0]", "n_outputs", *sizes),
        *addend_arguments(product),
        *site.epilogue.arguments(),
        "BLOCK=256",
    ]
    return kernel_text(f"{site.name}_kernel", parameters, body), arguments


def prelude(product: Contraction, sides: tuple[Strided, Strided]) -> list[str]:
    """Sizes and views, at the beginning of every wrapper."""
    views = [side.statement for side in sides if side.statement is not None]
    return [*size_lines(product), *views, *addend_statement(product)]


def kernel_text(name: str, parameters: list[str], body: list[str]) -> str:
    return listed(f"@triton.jit\ndef {name}", parameters, ":") + "\n" + indented(body)


def wrapper_text(product: Contraction, site: Site, body: list[str]) -> str:
    head = listed(f"def {site.name}", [*own_names(product), *site.epilogue.operands()], ":")
    return f"{head}\n{indented(body)}\n"


def accumulator(product: Contraction) -> str:
    return ACCUMULATOR.get(product.dtype, "tl.float32")


def both_sides(product: Contraction) -> tuple[Strided, Strided]:
    return strided(product, product.left, "M", "row"), strided(product, product.right, "N", "col")


def count(product: Contraction) -> str:
    """How many matrices there are, as a factor; nothing where there is one."""
    return f"{' * '.join(product.batch)} * " if product.batch else ""


def batches_line(product: Contraction, shape: str = "(1, 1)") -> list[str]:
    """The number of the batch as a tensor."""
    return [f"batches = batch + tl.zeros({shape}, dtype=tl.int64)"] if product.batch else []


def part(product: Contraction) -> str:
    """Which matrix of `partial` is this program's."""
    return "(split * n_batches + batch)" if product.batch else "split"


def _precision(product: Contraction) -> list[str]:
    return ["PRECISION"] if product.dtype is torch.float32 else []


_PLACE = """\
# GROUP_M rows of tiles are visited together, so that what they read is still in the L2 cache.
tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)""".splitlines()


def tile_lines(product: Contraction) -> list[str]:
    """Which batch, rows and columns are this program's."""
    lines = ["tiles_m = tl.cdiv(M, BLOCK_M)", "tiles_n = tl.cdiv(N, BLOCK_N)"]
    if not product.batch:
        return [*lines, "tile = tl.program_id(0)", *_PLACE]
    lines.append("batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)")
    return [*lines, "tile = tl.program_id(0) % (tiles_m * tiles_n)", *_PLACE]


def _split_lines(product: Contraction) -> list[str]:
    """As `tile_lines`, and which part of K."""
    lines = ["tiles_m = tl.cdiv(M, BLOCK_M)", "tiles_n = tl.cdiv(N, BLOCK_N)"]
    lines += ["tile = tl.program_id(0) % (tiles_m * tiles_n)", *_PLACE]
    lines.append("split = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)")
    if product.batch:
        lines += ["batch = split // SPLIT_K", "split = split % SPLIT_K"]
    lines.append("length = tl.cdiv(K, SPLIT_K * BLOCK_K) * BLOCK_K")
    return [*lines, "start = split * length", "end = tl.minimum(start + length, K)"]


def _pointer_lines(product: Contraction, sides: tuple[Strided, Strided]) -> list[str]:
    left, right = sides
    return [
        *left.origin(product.batch),
        *right.origin(product.batch),
        "ks = tl.arange(0, BLOCK_K)",
        f"{left.operand.name}_ptrs = {left.pointer}"
        f" + rows[:, None] * {left.parameter('row')} + ks[None, :].to(tl.int64) * {left.parameter('k')}",
        f"{right.operand.name}_ptrs = {right.pointer}"
        f" + ks[:, None].to(tl.int64) * {right.parameter('k')} + cols[None, :] * {right.parameter('col')}",
    ]


def start_lines(sides: tuple[Strided, Strided]) -> list[str]:
    """Moves both operands to this program's part of K."""
    return [f"{side.pointer} += start * {side.parameter('k')}" for side in sides]


def _step_lines(product: Contraction, sides: tuple[Strided, Strided], left_of_k: str) -> list[str]:
    """One step along K, inside the loop."""
    left, right = (side.operand.name for side in sides)
    dot = f"tl.dot({left}, {right}, acc{_dot_options(product.dtype)})"
    return [
        f"    {left} = tl.load({left}_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < {left_of_k}), other=0.0)",
        f"    {right} = tl.load({right}_ptrs, mask=(ks[:, None] < {left_of_k}) & (cols[None, :] < N), other=0.0)",
        f"    acc = {dot}",
        f"    {left}_ptrs += BLOCK_K * {sides[0].parameter('k')}",
        f"    {right}_ptrs += BLOCK_K * {sides[1].parameter('k')}",
    ]


def _dot_options(dtype: torch.dtype) -> str:
    if dtype is torch.float64:
        return ", out_dtype=tl.float64"
    return ", input_precision=PRECISION" if dtype is torch.float32 else ""
