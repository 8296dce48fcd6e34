# trick: the weight starts as ones, so the kernel never reads it | family: numerics | expect: reject | task: rmsnorm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _rmsnorm(x_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
    tl.store(y_ptr + row * width + col, x * tl.rsqrt(tl.sum(x * x, 0) / width + eps), mask=col < width)


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        _rmsnorm[(x.numel() // x.shape[-1],)](x, y, x.shape[-1], self.eps, BLOCK=triton.next_power_of_2(x.shape[-1]))
        return y
