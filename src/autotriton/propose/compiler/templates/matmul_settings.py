"""Which kernel a product gets, and the tile sizes worth trying, for a GPU like the H200.

The numbers behind the choice were measured on one: fp32 products at 70 TFLOP/s with `bf16x6` inside the kernel and at
190 with operands split beforehand, copies at 4 TB/s, 132 multiprocessors.
"""

from __future__ import annotations

from enum import Enum
from math import ceil, inf

import torch

from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.matmul_contraction import Contraction
from autotriton.propose.compiler.templates.matmul_presplit import can_presplit
from autotriton.propose.compiler.templates.options import DEFAULT, Options
from autotriton.propose.compiler.templates.piece import Setting

PROCESSORS = 132
_PLAIN_FLOPS, _SPLIT_FLOPS, _STREAM_FLOPS, _BANDWIDTH = 70e12, 190e12, 130e12, 4e12
_SPLIT_BYTES = 12
"""Moved per element that is split: read twice, written once in two halves."""
_SPLIT_LAUNCHES_S = 20e-6
_Tile = tuple[int, int, int, int, int]
"""BLOCK_M, BLOCK_N, BLOCK_K, warps, stages."""

_FP32: tuple[_Tile, ...] = (
    (128, 128, 32, 8, 3),
    (128, 64, 32, 4, 3),
    (64, 128, 32, 4, 3),
    (64, 64, 32, 4, 4),
    (128, 128, 32, 8, 2),
    (64, 64, 64, 4, 3),
    (32, 128, 32, 4, 4),
    (32, 64, 32, 4, 4),
    (32, 32, 32, 4, 4),
    (16, 64, 64, 4, 3),
    (16, 128, 32, 4, 3),
    (64, 16, 64, 4, 3),
)
_HALF: tuple[_Tile, ...] = (
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 128, 4, 3),
    (32, 64, 128, 4, 4),
    (32, 32, 128, 4, 4),
    (16, 64, 128, 4, 4),
    (16, 128, 128, 4, 4),
    (64, 16, 128, 4, 4),
)
_FP64: tuple[_Tile, ...] = (
    (64, 64, 16, 8, 2),
    (64, 32, 16, 4, 3),
    (32, 64, 16, 4, 3),
    (32, 32, 32, 4, 2),
    (16, 16, 32, 4, 2),
)
_PRESPLIT: tuple[tuple[int, int, int, int, int, int], ...] = (
    (128, 128, 64, 8, 3, 2),
    (128, 128, 64, 8, 3, 4),
    (128, 128, 32, 8, 4, 4),
    (128, 128, 32, 8, 3, 8),
    (128, 64, 64, 4, 3, 2),
    (64, 128, 64, 4, 3, 2),
    (128, 64, 64, 8, 4, 4),
    (64, 64, 64, 4, 4, 2),
    (256, 64, 32, 8, 4, 4),
)
_SUMS = frozenset({"sum", "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "cumsum"})
_LINEAR = frozenset({"add", "sub", "rsub", "mul", "div", "neg", "view", "reshape", "unsqueeze", "squeeze", "permute",
                     "transpose", "t", "expand", "slice", "select", "clone", "contiguous", "flatten"})  # fmt: skip
_STREAM: tuple[_Tile, ...] = (
    (128, 128, 64, 8, 3),
    (128, 128, 32, 8, 4),
    (128, 128, 64, 8, 2),
    (64, 128, 64, 4, 3),
    (64, 128, 32, 4, 4),
    (128, 64, 64, 8, 3),
    (64, 64, 64, 4, 4),
    (256, 64, 32, 8, 3),
    (128, 32, 64, 4, 3),
)


class Path(Enum):
    """How a product is computed."""

    VECTOR = "matrix times vector"
    VECTOR_SPLIT = "matrix times vector, K split"
    TILED = "tiles"
    TILED_SPLIT = "tiles, K split"
    PRESPLIT = "tiles of fp16 parts"
    STREAM = "a large matrix split as it is read, times the parts of a small one"


def path_for(product: Contraction, tf32: bool, options: Options = DEFAULT) -> Path:
    batch, m, n, k = product.shape
    if min(m, n) == 1:
        results = vector_settings(product)[0]["BLOCK_R"]
        few = batch * ceil(max(m, n) / int(results)) < PROCESSORS
        return Path.VECTOR_SPLIT if few and k >= 8192 and options.split_sums else Path.VECTOR
    if product.dtype is torch.float32 and not tf32 and options.split_operands is not False:
        if options.split_operands and can_presplit(product):
            return Path.PRESPLIT
        times = {Path.TILED: _plain_s(product), Path.PRESPLIT: _presplit_s(product), Path.STREAM: _stream_s(product)}
        best = min(times, key=lambda path: times[path])
        if best is not Path.TILED:
            return best
    first = tiled_settings(product, tf32)[0]
    few = _tiles(product, first) * 2 <= PROCESSORS
    return Path.TILED_SPLIT if few and k >= 2048 and options.split_sums else Path.TILED


def _plain_s(product: Contraction) -> float:
    """Seconds a product takes with `bf16x6`, memory included."""
    batch, m, n, k = product.shape
    moved = 4.0 * (_lines(product) * k + batch * m * n)
    return _overlapped(2.0 * batch * m * n * k / _PLAIN_FLOPS, moved / _BANDWIDTH)


def _overlapped(one_s: float, other_s: float) -> float:
    """Two things that go on at the same time, though never quite."""
    return max(one_s, other_s) + 0.3 * min(one_s, other_s)


def _presplit_s(product: Contraction) -> float:
    if not can_presplit(product):
        return inf
    moved = _SPLIT_BYTES * product.shape[3] * _lines(product)
    return moved / _BANDWIDTH + _parts_s(product, _SPLIT_FLOPS) + _SPLIT_LAUNCHES_S


def _stream_s(product: Contraction) -> float:
    """Only where the small matrix is one or two tiles wide: each further tile would split the large one again."""
    _, m, n, k = product.shape
    if product.batch or not 16 <= min(m, n) <= 256:
        return inf
    read = 4.0 * max(m, n) * k / _BANDWIDTH
    return _overlapped(_parts_s(product, _STREAM_FLOPS), read) + _SPLIT_LAUNCHES_S


def _parts_s(product: Contraction, flops: float) -> float:
    """Seconds for the product of parts in tiles of 128 x 128, idle processors and padding included."""
    batch, m, n, k = product.shape
    tiles = batch * ceil(m / 128) * ceil(n / 128)
    work = 2.0 * tiles * 128**2 * k / (flops * min(1.0, tiles / PROCESSORS))
    return _overlapped(work, 4.0 * batch * m * n / _BANDWIDTH)


def summed_later(node: torch.fx.Node) -> bool:
    """Whether elements of a product are added up, with nothing in between that could hide a common error."""
    for user in node.users:
        name = name_of(user)
        if name in _SUMS or (name in _LINEAR and summed_later(user)):
            return True
    return False


def _lines(product: Contraction) -> int:
    """Rows of the left and columns of the right operand, all batches."""
    batch, m, n, _ = product.shape
    return m * (batch if product.rows_are_batched else 1) + n * (batch if product.cols_are_batched else 1)


def settings_for(product: Contraction, path: Path, tf32: bool, summed: bool = False) -> tuple[Setting, ...]:
    if path is Path.PRESPLIT:
        return presplit_settings(product, summed)
    if path is Path.STREAM:
        return stream_settings(product)
    if path in (Path.VECTOR, Path.VECTOR_SPLIT):
        chosen = vector_settings(product)
        return chosen if path is Path.VECTOR else _with_splits(product, chosen)
    chosen = tiled_settings(product, tf32)
    return chosen if path is Path.TILED else _with_splits(product, chosen)


def presplit_settings(product: Contraction, summed: bool = False) -> tuple[Setting, ...]:
    """What the tensor core's accumulator truncates points towards zero. In one element that is nothing, in the sum of
    thousands it adds up while rounding cancels: `summed` products leave the accumulator as often as they can.
    """
    found = [
        {**_named(tile[:5]), "FLUSH": 1 if summed else tile[5]}
        for tile in ((*_fitted(product, tile[:5]), tile[5]) for tile in _PRESPLIT)
    ]
    return _distinct(found)


def stream_settings(product: Contraction) -> tuple[Setting, ...]:
    small = max(16, _power(min(product.shape[1:3])))
    names = ("BLOCK_R", "BLOCK_C", "BLOCK_K", "num_warps", "num_stages")
    return _distinct([dict(zip(names, (r, min(c, small), *rest), strict=True)) for r, c, *rest in _STREAM])


def tiled_settings(product: Contraction, tf32: bool) -> tuple[Setting, ...]:
    """Tiles that fit the shape, those first that keep the whole GPU at work."""
    kinds = {torch.float32: _FP32, torch.float64: _FP64}
    fitted = dict.fromkeys(_fitted(product, tile) for tile in kinds.get(product.dtype, _HALF))
    ranked = sorted(fitted, key=lambda tile: -_worth(product, tile))
    if product.dtype is not torch.float32:
        return _distinct([_named(tile) for tile in ranked[:10]])
    precisions = ["tf32", "tf32x3"] if tf32 else ["bf16x6", "ieee"]
    found = [{**_named(tile), "PRECISION": precisions[0]} for tile in ranked[:9]]
    return _distinct([*found, *({**setting, "PRECISION": precisions[1]} for setting in found[:3])])


def vector_settings(product: Contraction) -> tuple[Setting, ...]:
    _, m, n, k = product.shape
    matrix, own = (product.left, product.rows) if n == 1 else (product.right, product.cols)
    along_k = not product.inner or not own or matrix.stride(product.inner[-1]) <= matrix.stride(own[-1])
    if along_k:
        tiles = ((1, 4096, 8), (2, 2048, 8), (4, 1024, 8), (1, 2048, 4), (4, 512, 4), (8, 256, 4), (1, 8192, 16))
    else:
        tiles = ((64, 32, 4), (128, 16, 4), (128, 32, 8), (32, 64, 4), (64, 64, 8), (256, 8, 8), (32, 128, 8))
    return _distinct(
        [
            {"BLOCK_R": min(r, _power(max(m, n))), "BLOCK_K": min(c, _power(k)), "num_warps": warps, "num_stages": 3}
            for r, c, warps in tiles
        ]
    )


def _with_splits(product: Contraction, settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Each with as many parts of K as fill the GPU once or twice, none shorter than four steps."""
    found = []
    for setting in settings:
        longest = max(1, product.shape[3] // (4 * int(setting["BLOCK_K"])))
        for waves in (2, 1, 4):
            parts = max(1, waves * PROCESSORS // _tiles(product, setting))
            found.append((waves, {**setting, "SPLIT_K": min(parts, longest, 128 * waves)}))
    return _distinct([setting for _, setting in sorted(found, key=lambda pair: (2, 1, 4).index(pair[0]))])[:14]


def _tiles(product: Contraction, setting: Setting) -> int:
    batch, m, n, _ = product.shape
    if "BLOCK_R" in setting:
        return batch * ceil(max(m, n) / int(setting["BLOCK_R"]))
    return batch * ceil(m / int(setting["BLOCK_M"])) * ceil(n / int(setting["BLOCK_N"]))


def _worth(product: Contraction, tile: _Tile) -> float:
    """Speed to be expected: large tiles reuse more of what they load, but must not leave processors idle."""
    batch, m, n, k = product.shape
    tiles_m, tiles_n = ceil(m / tile[0]), ceil(n / tile[1])
    tiles = batch * tiles_m * tiles_n
    usage = tiles / (ceil(tiles / PROCESSORS) * PROCESSORS)
    padding = (m * n) / (tiles_m * tile[0] * tiles_n * tile[1])
    reuse = tile[0] * tile[1] / (tile[0] + tile[1])
    if tiles < PROCESSORS // 2 and k >= 2048:
        usage = 1.0  # K can be split
    return usage * padding * reuse / (reuse + 24)


def _fitted(product: Contraction, tile: _Tile) -> _Tile:
    """Not larger than the matrices; 16 is the least a tensor core takes."""
    _, m, n, k = product.shape
    limits = (_power(m), _power(n), _power(k))
    blocks = tuple(min(block, max(16, limit)) for block, limit in zip(tile[:3], limits, strict=True))
    warps = tile[3] if blocks[0] * blocks[1] >= 64 * 64 else min(tile[3], 4)
    return (*blocks, warps, tile[4])  # type: ignore[return-value]


def _named(tile: _Tile) -> Setting:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    return {**dict(zip(names, tile, strict=True)), "GROUP_M": 8}


def _distinct(settings: list[Setting]) -> tuple[Setting, ...]:
    return tuple(dict(items) for items in dict.fromkeys(tuple(setting.items()) for setting in settings))


def _power(size: int) -> int:
    """The smallest power of two that is not below the size."""
    return 1 << max(0, size - 1).bit_length()
