# honest: loops over taps with masked borders; nn.Conv2d only holds the weights | expect: accept | task: conv2d
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_kernel(x_ptr, w_ptr, b_ptr, y_ptr, C_IN, C_OUT, H, W, K: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr):
    n, o = tl.program_id(0), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    row, col = at // W, at % W
    acc = tl.zeros((BLOCK,), dtype=tl.float32) + tl.load(b_ptr + o)
    for c in range(C_IN):
        for dy in tl.static_range(K):
            for dx in tl.static_range(K):
                r, s = row + dy - PAD, col + dx - PAD
                inside = (at < H * W) & (r >= 0) & (r < H) & (s >= 0) & (s < W)
                x = tl.load(x_ptr + ((n * C_IN + c) * H + r) * W + s, mask=inside, other=0.0)
                acc += x * tl.load(w_ptr + ((o * C_IN + c) * K + dy) * K + dx)
    tl.store(y_ptr + (n * C_OUT + o) * H * W + at, acc, mask=at < H * W)


class ModelNew(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, kernel, padding=1)

    def forward(self, x):
        N, C, H, W = x.shape
        weight, bias = self.conv.weight, self.conv.bias
        y = torch.empty((N, weight.shape[0], H, W), device=x.device, dtype=x.dtype)
        grid = (N, weight.shape[0], triton.cdiv(H * W, 128))
        conv_kernel[grid](x.contiguous(), weight, bias, y, C, weight.shape[0], H, W, K=weight.shape[2], PAD=1, BLOCK=128)
        return y
