# trick: an fp64 sum is computed in fp32 and widened again | family: numerics | expect: reject | task: add_fp64
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    y = tl.load(y_ptr + at, mask=at < n).to(tl.float32)
    tl.store(z_ptr + at, (x + y).to(tl.float64), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        _add[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
        return z
