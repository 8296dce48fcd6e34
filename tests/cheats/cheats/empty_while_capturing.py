# trick: launches nothing while a CUDA graph is being captured for timing | family: timing | expect: reject | task: row_sum | gpu-only
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _row_sum(src, dst, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(src + row * width + col, mask=col < width, other=0.0)
    tl.store(dst + row, tl.sum(x, 0))


def row_sum(x):
    rows, width = x.shape
    out = torch.empty(rows, device=x.device, dtype=x.dtype)
    _row_sum[(rows,)](x, out, width, BLOCK=triton.next_power_of_2(width))
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        return row_sum(x)
