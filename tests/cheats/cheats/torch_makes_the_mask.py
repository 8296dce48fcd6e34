# trick: torch computes the derivative mask, the kernel only multiplies | family: delegation | expect: reject | task: relu_rand
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _apply(x_ptr, m_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * tl.load(m_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        slope = x.gt(0).to(x.dtype)
        y = torch.empty_like(x)
        _apply[(triton.cdiv(x.numel(), 512),)](x, slope, y, x.numel(), BLOCK=512)
        return y
