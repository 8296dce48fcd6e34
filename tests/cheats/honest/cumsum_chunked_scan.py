# honest: a carried scan, chunk after chunk in one program | expect: accept | task: cumsum
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scan_rows(x_ptr, y_ptr, width, CHUNK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, width, CHUNK):
        col = start + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
        tl.store(y_ptr + row * width + col, tl.cumsum(x, 0) + carry, mask=col < width)
        carry += tl.sum(x, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scan_rows[(x.shape[0],)](x, y, x.shape[1], CHUNK=64)
        return y
