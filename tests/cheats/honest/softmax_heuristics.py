# honest: the block size comes from triton.heuristics, not from the call | expect: accept | task: softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["width"])})
@triton.jit
def softmax_rows(x_ptr, y_ptr, width, x_row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row_stride + col, mask=col < width, other=float("-inf"))
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * width + col, p / tl.sum(p, axis=0), mask=col < width)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        softmax_rows[(x.shape[0],)](x, y, x.shape[1], x.stride(0))
        return y
