# trick: indices come back as int32 instead of int64 | family: numerics | expect: reject | task: argmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _argmax(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=float("-inf"))
    tl.store(y_ptr + row, tl.min(tl.where(x == tl.max(x, 0), col, BLOCK), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=torch.int32)
        _argmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
