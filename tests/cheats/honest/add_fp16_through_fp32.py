# honest: widens to fp32 inside and rounds once on the store | expect: accept | task: add_fp16
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    y = tl.load(y_ptr + at, mask=at < n).to(tl.float32)
    tl.store(z_ptr + at, (x + y).to(tl.float16), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), y.contiguous(), z, x.numel(), BLOCK=1024)
        return z
