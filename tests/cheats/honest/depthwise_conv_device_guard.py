# honest: enters torch.cuda.device when the input is on a GPU | expect: accept | task: depthwise_conv
import contextlib

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise(x_ptr, w_ptr, y_ptr, C, H, W, K: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    row, col = at // W, at % W
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(K * K):
        r, s = row + tap // K - K // 2, col + tap % K - K // 2
        inside = (at < H * W) & (r >= 0) & (r < H) & (s >= 0) & (s < W)
        x = tl.load(x_ptr + plane * H * W + r * W + s, mask=inside, other=0.0)
        acc += x * tl.load(w_ptr + (plane % C) * K * K + tap)
    tl.store(y_ptr + plane * H * W + at, acc, mask=at < H * W)


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False)

    def forward(self, x):
        N, C, H, W = x.shape
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        with torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext():
            depthwise[(N * C,)](x.contiguous(), self.conv.weight, y, C, H, W, K=self.conv.kernel_size[0],
                                BLOCK=triton.next_power_of_2(H * W))
        return y
