# honest: a Python float of the input list becomes a kernel argument | expect: accept | task: scaled_add
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def axpy(x_ptr, y_ptr, z_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) + alpha * tl.load(y_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        if x.shape != y.shape:
            raise ValueError("shapes differ")
        z = torch.empty_like(x)
        axpy[(triton.cdiv(x.numel(), 512),)](x, y, z, float(alpha), x.numel(), BLOCK=512)
        return z
