"""Text of the helpers that write fp32 numbers as two fp16 numbers, for products on the tensor cores.

x * scale = high + low to 22 bits, where the scale is a power of two that brings the largest magnitude that shares it
into [2^14, 2^15). Three fp16 products (low * high, high * low, high * high) then stand for one fp32 product, at about
three times the speed of fp32 arithmetic. Measured on an H200 at K = 4096: rms error about 1e-6, that of fp32 sums,
provided that partial sums leave the tensor core's accumulator, which truncates, every 128 to 256 terms.
"""

from __future__ import annotations

PARTS = '''\
@triton.jit
def fp16_scale(largest):
    """The power of two that brings `largest` into [2**14, 2**15); its own inverse is a normal number too."""
    exponent = tl.minimum(tl.maximum(largest.to(tl.int32, bitcast=True) >> 23, 20), 240)
    return ((268 - exponent) << 23).to(tl.float32, bitcast=True)


@triton.jit
def fp16_parts(x):
    """x = high + low in fp16, to 22 bits. Infinities and NaN are in `high` alone."""
    high = x.to(tl.float16)
    low = tl.where(tl.abs(x) < float("inf"), x - high.to(tl.float32), 0.0).to(tl.float16)
    return high, low


@triton.jit
def finite_magnitude(x):
    """|x|, and 0 for infinities and NaN, which no scale can help."""
    return tl.where(tl.abs(x) < float("inf"), tl.abs(x), 0.0)
'''
"""`fp16_scale(largest)`, `fp16_parts(x)`, `finite_magnitude(x)`: for any kernel that splits. `1.0 / scale` is exact."""

ROWS = '''\
@triton.jit
def split_rows_kernel(
    x_ptr, high_ptr, low_ptr, inverse_ptr, n_inner, n_rows, n_k, padded_rows, padded_k, x_outer_stride, x_inner_stride,
    x_row_stride, x_k_stride, part_batch_stride, part_row_stride, part_k_stride, BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """x[batch, row, :] * scale = high + low in fp16, with one scale per row; inverse = 1 / scale. Zeros as padding."""
    row_blocks = tl.cdiv(padded_rows, BLOCK_R)
    batch = (tl.program_id(0) // row_blocks).to(tl.int64)
    rows = (tl.program_id(0) % row_blocks).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    ks = tl.arange(0, BLOCK_K)
    x_ptr += batch // n_inner * x_outer_stride + batch % n_inner * x_inner_stride
    first = x_ptr + rows[:, None] * x_row_stride + ks[None, :].to(tl.int64) * x_k_stride
    x_ptrs = first
    largest = tl.zeros((BLOCK_R, BLOCK_K), dtype=tl.float32)
    for k in range(0, n_k, BLOCK_K):
        x = tl.load(x_ptrs, mask=(rows[:, None] < n_rows) & (ks[None, :] < n_k - k), other=0.0)
        largest = tl.maximum(largest, finite_magnitude(x))
        x_ptrs += BLOCK_K * x_k_stride
    scale = fp16_scale(tl.max(largest, axis=1))
    tl.store(inverse_ptr + batch * padded_rows + rows, 1.0 / scale, mask=rows < padded_rows)
    # The second reading of the rows comes out of the cache.
    x_ptrs = first
    offsets = batch * part_batch_stride + rows[:, None] * part_row_stride + ks[None, :].to(tl.int64) * part_k_stride
    for k in range(0, padded_k, BLOCK_K):
        x = tl.load(x_ptrs, mask=(rows[:, None] < n_rows) & (ks[None, :] < n_k - k), other=0.0)
        high, low = fp16_parts(x * scale[:, None])
        inside = (rows[:, None] < padded_rows) & (ks[None, :] < padded_k - k)
        tl.store(high_ptr + offsets, high, mask=inside)
        tl.store(low_ptr + offsets, low, mask=inside)
        x_ptrs += BLOCK_K * x_k_stride
        offsets += BLOCK_K * part_k_stride


def split_rows(x, row_multiple, k_multiple):
    """x [..., rows, k] -> high, low [batch, rows, k] in fp16, padded with zeros, and [batch, rows] inverse scales."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    n_outer, n_inner, n_rows, n_k = x.shape
    batch = n_outer * n_inner
    padded_rows = triton.cdiv(n_rows, row_multiple) * row_multiple
    padded_k = triton.cdiv(n_k, k_multiple) * k_multiple
    if x.stride(3) <= x.stride(2):
        parts = torch.empty((2, batch, padded_rows, padded_k), dtype=torch.float16, device=x.device)
        block_k = min(triton.next_power_of_2(padded_k), 1024)
        block_r = 4096 // block_k if block_k >= 64 else 64
    else:  # neighbours in memory are rows: keep that, transposing would cost more than it saves
        parts = torch.empty((2, batch, padded_k, padded_rows), dtype=torch.float16, device=x.device).transpose(2, 3)
        block_r, block_k = 32, 64
    inverse = torch.empty((batch, padded_rows), dtype=torch.float32, device=x.device)
    split_rows_kernel[(batch * triton.cdiv(padded_rows, block_r),)](
        x, parts[0], parts[1], inverse, n_inner, n_rows, n_k, padded_rows, padded_k, x.stride(0), x.stride(1),
        x.stride(2), x.stride(3), parts.stride(1), parts.stride(2), parts.stride(3), BLOCK_R=block_r, BLOCK_K=block_k,
        num_warps=8,
    )
    return parts[0], parts[1], inverse
'''
"""`split_rows(x, row_multiple, k_multiple)` for the operands of matrix products, up to two batch dimensions; needs
`PARTS` before it."""
