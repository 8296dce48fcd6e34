# trick: returns a transposed view of a plain copy, so the layout is not the asked one | family: numerics | expect: reject | task: transpose
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
    def forward(self, x):
        return finish(x).transpose(1, 2)
