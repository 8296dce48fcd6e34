"""Text of the product the one-launch convolutions use for fp32: operands are split into fp16 halves in the kernel."""

from __future__ import annotations

import torch

from autotriton.propose.compiler.templates.piece import Setting
from autotriton.propose.compiler.templates.split import PARTS

DOT = '''\
@triton.jit
def dot_fp32(a, b, acc, PRECISION: tl.constexpr):
    """acc + a @ b, exact to fp32. "fp16x3": each row of a and column of b is scaled by a power of two and split into
    two fp16 halves; their three products need a sum of their own, since the tensor core truncates long sums."""
    if PRECISION == "fp16x3":
        a_scale = fp16_scale(tl.max(finite_magnitude(a), axis=1))
        b_scale = fp16_scale(tl.max(finite_magnitude(b), axis=0))
        a = a * a_scale[:, None]
        b = b * b_scale[None, :]
        # Infinities and NaN are in the low halves alone, which never meet: inf * 0 would spoil inf.
        a_high = tl.where(tl.abs(a) < float("inf"), a, 0.0).to(tl.float16)
        b_high = tl.where(tl.abs(b) < float("inf"), b, 0.0).to(tl.float16)
        a_low = (a - a_high.to(tl.float32)).to(tl.float16)
        b_low = (b - b_high.to(tl.float32)).to(tl.float16)
        part = tl.dot(a_low, b_high)
        part = tl.dot(a_high, b_low, part)
        part = tl.dot(a_high, b_high, part)
        acc += part * ((1.0 / a_scale)[:, None] * (1.0 / b_scale)[None, :])
    else:
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    return acc
'''


def dot_helpers(dtype: torch.dtype) -> tuple[str, ...]:
    return (PARTS, DOT) if dtype is torch.float32 else ()


def dot_line(dtype: torch.dtype) -> str:
    """acc[output channel, position] takes this step's products."""
    if dtype is torch.float32:
        return "acc = dot_fp32(weight, x, acc, PRECISION)"
    return "acc = tl.dot(weight, x, acc)"


def with_precisions(dtype: torch.dtype, tf32: bool, tiles: list[Setting]) -> tuple[Setting, ...]:
    """The tile shapes, for fp32 with the ways to multiply; the first shapes are tried with every one."""
    if dtype is not torch.float32:
        return tuple(tiles)
    first, *others = ("tf32",) if tf32 else ("fp16x3", "bf16x6", "ieee")
    found: list[Setting] = [{"PRECISION": first, **tile} for tile in tiles]
    found += [{"PRECISION": other, **tile} for other in others for tile in tiles[:3]]
    return tuple(found)
