# honest: pure data movement, a kernel that computes nothing | expect: accept | task: transpose
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, y_ptr, R, C, TILE: tl.constexpr):
    base = tl.program_id(2) * R * C
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + base + r[:, None] * C + c[None, :], mask=(r[:, None] < R) & (c[None, :] < C))
    tl.store(y_ptr + base + c[:, None] * R + r[None, :], tl.trans(x), mask=(c[:, None] < C) & (r[None, :] < R))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        B, R, C = x.shape
        y = torch.empty((B, C, R), device=x.device, dtype=x.dtype)
        transpose_kernel[(triton.cdiv(R, 16), triton.cdiv(C, 16), B)](x, y, R, C, TILE=16)
        return y
