# trick: the module walks over its children, so no call is spelled out | family: delegation | expect: reject | task: max_pool
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _move(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < count), mask=at < count)


def finish(t):
    t = t.contiguous()
    out = torch.empty_like(t)
    _move[(triton.cdiv(t.numel(), 512),)](t, out, t.numel(), BLOCK=512)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        for stage in self.children():
            x = stage(x)
        return finish(x)
