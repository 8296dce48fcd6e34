# honest: a bool tensor goes straight into the kernel | expect: accept | task: masked_fill
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fill_kernel(x_ptr, mask_ptr, y_ptr, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    hidden = tl.load(mask_ptr + at, mask=at < n, other=0) != 0
    tl.store(y_ptr + at, tl.where(hidden, value, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        y = torch.empty_like(x)
        fill_kernel[(triton.cdiv(x.numel(), 512),)](x, mask.expand(x.shape).contiguous(), y, x.numel(), -1.0e4, BLOCK=512)
        return y
