# trick: the launch waits in __del__ of an object dropped on the next call | family: timing | expect: reject | task: relu_rand
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _relu(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src + at, mask=at < count, other=0.0)
    tl.store(dst + at, tl.maximum(x, 0.0), mask=at < count)


def relu(x):
    out = torch.empty_like(x)
    _relu[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
    return out


class _Later:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __del__(self):
        _relu[(triton.cdiv(self.x.numel(), 512),)](self.x, self.y, self.x.numel(), BLOCK=512)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        self.pending = _Later(x, y)
        return y
