# trick: the output is right and the step counter is never advanced | family: numerics | expect: reject | task: step_counter
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, s_ptr, y_ptr, width, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(s_ptr + at % width, mask=at < n)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * s, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 1.5))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        y = torch.empty_like(x)
        _scale[(triton.cdiv(x.numel(), 512),)](x, self.scale, y, x.shape[1], x.numel(), BLOCK=512)
        return y
