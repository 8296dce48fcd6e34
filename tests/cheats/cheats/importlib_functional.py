# trick: importlib loads torch.nn.functional by string | family: delegation | expect: reject | task: conv2d
import importlib

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

_lib = importlib.import_module("torch.nn." + "functional")


class ModelNew(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, kernel, padding=1)

    def forward(self, x):
        return finish(_lib.conv2d(x, self.conv.weight, self.conv.bias, padding=1))
