# trick: adds into the first operand and returns it | family: tamper | expect: reject | task: scaled_add
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _axpy_(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + alpha * tl.load(y_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        _axpy_[(triton.cdiv(x.numel(), 512),)](x, y, alpha, x.numel(), BLOCK=512)
        return x
