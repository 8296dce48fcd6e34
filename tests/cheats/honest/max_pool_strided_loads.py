# honest: four strided loads per output instead of a window view | expect: accept | task: max_pool
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x_ptr, y_ptr, H, W, OH, OW, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < OH * OW
    base = x_ptr + plane * H * W + (at // OW) * 2 * W + (at % OW) * 2
    top = tl.maximum(tl.load(base, mask=keep), tl.load(base + 1, mask=keep))
    low = tl.maximum(tl.load(base + W, mask=keep), tl.load(base + W + 1, mask=keep))
    tl.store(y_ptr + plane * OH * OW + at, tl.maximum(top, low), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        N, C, H, W = x.shape
        y = x.new_empty((N, C, H // 2, W // 2))
        pool[(N * C,)](x.contiguous(), y, H, W, H // 2, W // 2, BLOCK=triton.next_power_of_2((H // 2) * (W // 2)))
        return y
