"""Candidate for layernorm.py: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and var over the last axis.

One program per row. The variance comes from centred values, as E[x^2] - E[x]^2 loses digits when the mean is large.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    y = centred / tl.sqrt(variance + eps) * weight + bias
    tl.store(y_ptr + row * y_row_stride + cols, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)  # holds weight, bias and eps under the task's names; it is not called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.contiguous().view(-1, x.shape[-1])
        y = torch.empty_like(rows)
        n_rows, n_cols = rows.shape
        layernorm_kernel[(n_rows,)](
            rows,
            self.norm.weight,
            self.norm.bias,
            y,
            rows.stride(0),
            y.stride(0),
            n_cols,
            self.norm.eps,
            BLOCK_N=triton.next_power_of_2(n_cols),
            num_warps=4,
        )
        return y.view(x.shape)
