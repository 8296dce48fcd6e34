"""Tile settings of the packed convolution, from the example's sizes."""

from __future__ import annotations

import math

import torch

from autotriton.propose.compiler.templates.conv_call import ConvCall
from autotriton.propose.compiler.templates.piece import Setting

FEW_CHANNELS = 16
"""Up to here a step of K covers several taps; above, one."""
_MULTIPROCESSORS = 132


def settings(call: ConvCall, split: bool) -> tuple[Setting, ...]:
    """Best guess first. Shared memory: BLOCK_K * (BLOCK_M + BLOCK_N) halves, twice when split, per stage."""
    found: list[Setting] = []
    for block_n in _widths(call.group_outputs):
        for block_m, block_k, warps, stages in _shapes(call, block_n, split):
            setting: Setting = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k}
            if split:
                setting["CHUNK"] = max(1, 128 // block_k)
            setting["PASSES"] = _passes(call, block_m, block_n)
            found.append({**setting, "num_warps": warps, "num_stages": stages})
    more = [{**found[0], "PASSES": 1}] if found[0]["PASSES"] != 1 else []
    return tuple([*found, *more][:16])


def _widths(outputs: int) -> list[int]:
    """The two tile widths over output channels that should cost least, the wider first where they are equal."""

    def cost(width: int) -> float:
        # Per 64 rows and 16 of K, Hopper's tensor cores take width / 2 cycles and shared memory 16 + width / 4.
        slowed = max(1.0, (16 + width / 4) / (width / 2))
        return math.ceil(outputs / width) * width / outputs * slowed

    widths = [width for width in (128, 64, 32, 16) if width <= max(16, 2 * outputs - 1)]
    return sorted(widths, key=cost)[:2]


def _shapes(call: ConvCall, block_n: int, split: bool) -> list[tuple[int, int, int, int]]:
    """BLOCK_M, BLOCK_K, warps, stages. Four warps leave room for a second program, which computes while one stores."""
    few = call.group_channels <= FEW_CHANNELS
    wide = _step(call) if few else 64 if call.group_channels % 64 == 0 else 32
    if block_n == 128:
        # Two accumulators of 128 by 128 do not fit into the registers of four warps.
        shapes = [(128, wide, 8, 3), (64, 32, 4, 3), (64, wide, 4, 2), (128, 32, 8, 3), (128, wide, 8, 2)]
        shapes += [] if split else [(128, 32, 4, 4), (256, 32, 8, 3)]
    else:
        shapes = [(128, wide, 4, 2 if wide == 64 else 3), (128, 32, 4, 3), (128, wide, 8, 3), (128, 32, 8, 4)]
        shapes += [(256, 32, 8, 3), (64, wide, 4, 3)]
    shapes += [] if few else [(128, 16, 8, 4)]
    size = 4 if call.dtype is torch.float32 else 2  # two fp16 halves, or TF32
    fits = [s for s in shapes if s[1] * (s[0] + block_n) * size * s[3] <= 200 * 1024]
    return list(dict.fromkeys(fits))


def _step(call: ConvCall) -> int:
    """The BLOCK_K that pads K least where there are few channels; each step costs about as much as 8 of K more."""
    padded = max(4, 1 << (call.group_channels - 1).bit_length())
    depth = max(1, padded * call.taps // call.phases)
    return min((64, 32, 16), key=lambda block: math.ceil(depth / block) * (block + 8))


def _passes(call: ConvCall, block_m: int, block_n: int) -> int:
    """As many passes as leave each with several tiles per multiprocessor."""
    tiles = call.images * call.pixels // block_m * max(1, call.group_outputs // block_n) * call.groups
    most = min(8, call.images, max(1, tiles // (8 * _MULTIPROCESSORS)))
    return 1 << (most.bit_length() - 1)
