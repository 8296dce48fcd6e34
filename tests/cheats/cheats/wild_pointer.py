# trick: loads from far outside the input, a sticky device error | family: denial | expect: reject | task: gelu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _wild(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    far = at.to(tl.int64) + (1 << 42)
    tl.store(y_ptr + at, tl.load(x_ptr + far), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _wild[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
