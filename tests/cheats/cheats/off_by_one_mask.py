# trick: the mask lets one element of the next row into the sum's neighbourhood | family: numerics | expect: reject | task: mean_and_max
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _stats(x_ptr, mean_ptr, top_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + col, mask=col <= width, other=float("-inf"))
    tl.store(top_ptr + row, tl.max(x, 0))
    tl.store(mean_ptr + row, tl.sum(tl.where(col < width, x, 0.0), 0) / width)


class ModelNew(nn.Module):
    def forward(self, x):
        mean = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        top = torch.empty_like(mean)
        _stats[(x.shape[0],)](x, mean, top, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return mean, top
