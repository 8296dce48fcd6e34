# trick: the kernel waits for a flag nobody sets | family: denial | expect: reject | task: row_sum
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _wait(x_ptr, y_ptr, flag_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass
    x = tl.load(x_ptr + row * width + col, mask=col < width, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        flag = torch.zeros(1, device=x.device, dtype=torch.int32)
        _wait[(x.shape[0],)](x, y, flag, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
