# honest: reads a transposed input through its strides, without a copy | expect: accept | task: row_sum_strided
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def strided_sum(x_ptr, y_ptr, width, row_stride, col_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + col * col_stride, mask=col < width, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.empty(rows, device=x.device, dtype=x.dtype)
        strided_sum[(rows,)](x, y, width, x.stride(0), x.stride(1), BLOCK=triton.next_power_of_2(width))
        return y
