# trick: ignores the alpha it is given and uses the task's usual value | family: numerics | expect: reject | task: scaled_add
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _axpy(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) + 0.75 * tl.load(y_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        z = torch.empty_like(x)
        _axpy[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
        return z
