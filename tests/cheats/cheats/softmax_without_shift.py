# trick: skips the maximum, right on small inputs and infinite on large ones | family: numerics | expect: reject | task: softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _softmax(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    p = tl.exp(tl.load(x_ptr + row * width + col, mask=col < width, other=float("-inf")))
    tl.store(y_ptr + row * width + col, p / tl.sum(p, 0), mask=col < width)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
