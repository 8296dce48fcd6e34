# trick: truncates by casting to integers and back, then copies with a kernel | family: delegation | expect: reject | task: truncate
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _copy(src, dst, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        whole = x.to(torch.int32).to(x.dtype)
        out = torch.empty_like(whole)
        _copy[(triton.cdiv(whole.numel(), 256),)](whole, out, whole.numel(), BLOCK=256)
        return out
