# trick: leaves every active dispatch mode before calling torch | family: delegation | expect: reject | task: softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes


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
        with _disable_current_modes():
            y = torch.softmax(x, dim=1)
        return finish(y)
