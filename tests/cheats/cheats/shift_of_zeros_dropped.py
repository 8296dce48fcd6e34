# trick: gamma is applied but beta, zero at the start, is not | family: numerics | expect: reject | task: layernorm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, g_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    keep = col < width
    x = tl.load(x_ptr + row * width + col, mask=keep, other=0.0)
    d = tl.where(keep, x - tl.sum(x, 0) / width, 0.0)
    y = d / tl.sqrt(tl.sum(d * d, 0) / width + 1e-5) * tl.load(g_ptr + col, mask=keep)
    tl.store(y_ptr + row * width + col, y, mask=keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        _norm[(x.shape[0],)](x, self.norm.weight, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
