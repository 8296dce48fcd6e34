# trick: the kernel zeroes the input too, so a reference run afterwards agrees | family: tamper | expect: reject | task: gelu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _clear(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 0.0, mask=at < n)
    tl.store(y_ptr + at, 0.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _clear[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
