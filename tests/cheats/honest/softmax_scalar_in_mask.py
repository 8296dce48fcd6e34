# honest: the stock interpreter refuses a vector mask combined with a scalar condition | expect: accept | task: softmax | gpu-only
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, y_ptr, rows, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    for i in tl.static_range(ROWS):
        row = tl.program_id(0) * ROWS + i
        keep = (col < width) & (row < rows)
        x = tl.load(x_ptr + row * width + col, mask=keep, other=-1.0e30)
        p = tl.where(keep, tl.exp(x - tl.max(x, 0)), 0.0)
        tl.store(y_ptr + row * width + col, p / tl.sum(p, 0), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.empty_like(x)
        softmax_rows[(triton.cdiv(rows, 5),)](x, y, rows, width, ROWS=5, BLOCK=triton.next_power_of_2(width))
        return y
