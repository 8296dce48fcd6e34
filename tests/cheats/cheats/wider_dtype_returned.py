# trick: returns fp32 where the task gives fp16 | family: numerics | expect: reject | task: add_fp16
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(z_ptr + at, x + tl.load(y_ptr + at, mask=at < n).to(tl.float32), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty(x.shape, device=x.device, dtype=torch.float32)
        _add[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
        return z
