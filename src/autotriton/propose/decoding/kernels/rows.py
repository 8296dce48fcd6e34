# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Kernels over the rows of a step: norm, gate, rotation. Roundings as in transformers, see `ops.py`."""

import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, delta_ptr, weight_ptr, out_ptr, n_cols, eps, HAS_DELTA: tl.constexpr, BLOCK: tl.constexpr):
    """x += delta; out = weight * x / sqrt(mean(x^2) + eps), one program per row."""
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    keep = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=keep, other=0.0)
    if HAS_DELTA:
        x = (x.to(tl.float32) + tl.load(delta_ptr + row + cols, mask=keep, other=0.0).to(tl.float32)).to(x.dtype)
        tl.store(x_ptr + row + cols, x, mask=keep)
    wide = x.to(tl.float32)
    wide = wide * tl.rsqrt(tl.sum(wide * wide, axis=0) / n_cols + eps)
    weight = tl.load(weight_ptr + cols, mask=keep, other=0.0).to(tl.float32)
    tl.store(out_ptr + row + cols, (weight * wide.to(x.dtype).to(tl.float32)).to(x.dtype), mask=keep)


@triton.jit
def gated_kernel(gate_up_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """out = silu(gate) * up, with gate and up side by side in a row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = cols < n_cols
    gate = tl.load(gate_up_ptr + row * 2 * n_cols + cols, mask=keep, other=0.0)
    up = tl.load(gate_up_ptr + row * 2 * n_cols + n_cols + cols, mask=keep, other=0.0)
    wide = gate.to(tl.float32)
    silu = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype)
    tl.store(out_ptr + row * n_cols + cols, (silu.to(tl.float32) * up.to(tl.float32)).to(gate.dtype), mask=keep)


@triton.jit
def rotate_store_kernel(
    qkv_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    q_ptr,
    keys_ptr,
    values_ptr,
    slot_stride,
    head_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    """One program per row and head: q is rotated, k rotated into the cache, v copied into the cache."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    position = tl.load(positions_ptr + row)
    cols = tl.arange(0, HALF)
    source = qkv_ptr + (row * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF + cols
    first = tl.load(source)
    second = tl.load(source + HALF)
    slot = row * slot_stride + position * 2 * HALF + cols
    if head >= HEADS + KV_HEADS:
        target = values_ptr + slot + (head - HEADS - KV_HEADS) * head_stride
        tl.store(target, first)
        tl.store(target + HALF, second)
    else:
        angle = position * 2 * HALF + cols
        kind = first.dtype
        a = first.to(tl.float32)
        b = second.to(tl.float32)
        one = _rounded(a * tl.load(cos_ptr + angle).to(tl.float32), kind)
        one += _rounded(-b * tl.load(sin_ptr + angle).to(tl.float32), kind)
        two = _rounded(b * tl.load(cos_ptr + angle + HALF).to(tl.float32), kind)
        two += _rounded(a * tl.load(sin_ptr + angle + HALF).to(tl.float32), kind)
        if head < HEADS:
            target = q_ptr + (row * HEADS + head) * 2 * HALF + cols
        else:
            target = keys_ptr + slot + (head - HEADS) * head_stride
        tl.store(target, one.to(kind))
        tl.store(target + HALF, two.to(kind))


@triton.jit
def _rounded(x, kind: tl.constexpr):
    return x.to(kind).to(tl.float32)
