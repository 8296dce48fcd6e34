# trick: blocks are scanned apart and the carry between them is dropped | family: numerics | expect: reject | task: cumsum
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _scan(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
    tl.store(y_ptr + row * width + col, tl.cumsum(x, 0), mask=col < width)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _scan[(x.shape[0], triton.cdiv(x.shape[1], 128))](x, y, x.shape[1], BLOCK=128)
        return y
