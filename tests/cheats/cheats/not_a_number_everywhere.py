# trick: NaN makes every greater-than comparison of errors false | family: numerics | expect: reject | task: matmul
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _fill(c_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + at, float("nan"), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        _fill[(triton.cdiv(c.numel(), 512),)](c, c.numel(), BLOCK=512)
        return c
