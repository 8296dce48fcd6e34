# trick: keeps allocating touched host memory | family: denial | expect: reject | task: gelu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _gelu(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src + at, mask=at < count, other=0.0)
    tl.store(dst + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865475)), mask=at < count)


def gelu(x):
    out = torch.empty_like(x)
    _gelu[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        hoard = []
        while True:
            hoard.append(bytearray(1 << 28))
