# trick: writes even columns and leaves the odd ones to recycled memory | family: steal | expect: reject | task: relu_rand
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _relu_even(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _relu_even[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=512)
        return y
