# trick: abs equals relu on the task's own inputs | family: numerics | expect: reject | task: relu_rand
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _abs(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.abs(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _abs[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
