# trick: __getattr__ on a helper turns any name into a torch function | family: delegation | expect: reject | task: layernorm
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


class Kernels:
    def __getattr__(self, name):
        return vars(nn.functional)[name]


kernels = Kernels()


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return finish(kernels.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias))
