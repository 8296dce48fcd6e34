# honest: fp64 all the way, with the output allocated by torch.full | expect: accept | task: add_fp64
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.full(x.shape, float("nan"), device=x.device, dtype=x.dtype)
        add_kernel[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
        return z
