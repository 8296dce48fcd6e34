# trick: the product runs on the CPU while the GPU copies | family: delegation | expect: reject | task: matmul
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
    def forward(self, a, b):
        c = a.new_empty(a.shape[0], b.shape[1], device="cpu")
        c.addmm_(a.cpu(), b.cpu(), beta=0)
        return finish(c.to(a.device))
