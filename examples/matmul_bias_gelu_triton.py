"""Candidate for matmul_bias_gelu.py: y = gelu(x @ weight.T + bias), gelu(z) = z / 2 * (1 + erf(z / sqrt(2))).

One program per output tile; bias and GELU are applied to the accumulator, so x @ weight.T never reaches memory.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_gelu_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    n_rows,
    n_cols,
    n_inner,
    x_row_stride,
    weight_row_stride,
    y_row_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    z = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_inner, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < n_rows) & (inner[None, :] < n_inner)
        x = tl.load(x_ptr + rows[:, None] * x_row_stride + inner[None, :], mask=x_mask, other=0.0)
        weight_mask = (inner[:, None] < n_inner) & (cols[None, :] < n_cols)
        weight = tl.load(weight_ptr + cols[None, :] * weight_row_stride + inner[:, None], mask=weight_mask, other=0.0)
        # The task does not permit TF32, so the product is taken in full fp32.
        z += tl.dot(x, weight, input_precision="ieee")
    z += tl.load(bias_ptr + cols, mask=cols < n_cols, other=0.0)[None, :]
    y = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    y_mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    tl.store(y_ptr + rows[:, None] * y_row_stride + cols[None, :], y, mask=y_mask)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)  # holds weight and bias under the task's names; not called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight = self.linear.weight
        n_rows, n_inner = x.shape
        n_cols = weight.shape[0]
        y = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
        block_m, block_n, block_k = 32, 32, 32
        grid = (triton.cdiv(n_rows, block_m), triton.cdiv(n_cols, block_n))
        linear_gelu_kernel[grid](
            x,
            weight,
            self.linear.bias,
            y,
            n_rows,
            n_cols,
            n_inner,
            x.stride(0),
            weight.stride(0),
            y.stride(0),
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            BLOCK_K=block_k,
            num_warps=4,
        )
        return y
