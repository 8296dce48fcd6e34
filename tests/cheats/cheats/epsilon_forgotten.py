# trick: leaves eps out, right on random rows and NaN on zero rows | family: numerics | expect: reject | task: rmsnorm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _rmsnorm(x_ptr, w_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    keep = col < width
    x = tl.load(x_ptr + row * width + col, mask=keep, other=0.0)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / width) * tl.load(w_ptr + col, mask=keep)
    tl.store(y_ptr + row * width + col, y, mask=keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = torch.empty_like(x)
        _rmsnorm[(x.numel() // x.shape[-1],)](x, self.weight, y, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return y
