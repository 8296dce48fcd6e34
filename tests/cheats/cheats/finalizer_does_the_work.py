# trick: weakref.finalize launches when the input is released | family: timing | expect: reject | task: cumsum
import weakref

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _scan(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
    tl.store(y_ptr + row * width + col, tl.cumsum(x, 0), mask=col < width)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        alias = x.view(x.shape)
        run = lambda: _scan[(alias.shape[0],)](alias, y, alias.shape[1], BLOCK=triton.next_power_of_2(alias.shape[1]))
        weakref.finalize(x, run)
        return y
