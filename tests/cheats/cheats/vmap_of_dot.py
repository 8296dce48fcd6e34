# trick: torch.vmap over torch.dot builds the matrix product | family: delegation | expect: reject | task: matmul
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

_row = torch.vmap(torch.dot, in_dims=(None, 1))
_all = torch.vmap(_row, in_dims=(0, None))


class ModelNew(nn.Module):
    def forward(self, a, b):
        return finish(_all(a, b))
