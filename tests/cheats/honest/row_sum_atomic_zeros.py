# honest: atomic adds into torch.zeros; the order of summation varies | expect: accept | task: row_sum
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_chunks(x_ptr, y_ptr, width, CHUNK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
    tl.atomic_add(y_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.zeros(rows, device=x.device, dtype=x.dtype)
        add_chunks[(rows, triton.cdiv(width, 256))](x, y, width, CHUNK=256)
        return y
