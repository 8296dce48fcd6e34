# honest: every launch argument is a keyword and annotations are strings | expect: accept | task: softmax
from __future__ import annotations

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    col = tl.arange(0, BLOCK)
    inside = col < width
    x = tl.load(x_ptr + row * width + col, mask=inside, other=-float("inf"))
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * width + col, p / tl.sum(p, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, width = x.size()
        y = x.new_empty(rows, width)
        softmax_rows[(rows, 1, 1)](x_ptr=x, y_ptr=y, width=width, BLOCK=triton.next_power_of_2(width), num_warps=4)
        return y
