# trick: the softmax denominator is estimated from every sixteenth column | family: numerics | expect: reject | task: wide_softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _softmax(x_ptr, y_ptr, width, BLOCK: tl.constexpr, SAMPLE: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    few = tl.arange(0, BLOCK // SAMPLE) * SAMPLE
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=float("-inf"))
    s = tl.load(x_ptr + row * width + few, mask=few < width, other=float("-inf"))
    top = tl.max(s, 0)
    tl.store(y_ptr + row * width + col, tl.exp(x - top) / (tl.sum(tl.exp(s - top), 0) * SAMPLE), mask=col < width)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), SAMPLE=16)
        return y
