# honest: same parameters in the same order under other names, and a device-side assert | expect: accept | task: linear_relu
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(x_ptr, w_ptr, b_ptr, y_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.load(b_ptr + j, mask=j < N, other=0.0)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        tl.device_assert(start < K, "walked past the reduction")
        x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
        w = tl.load(w_ptr + j[:, None] * K + k[None, :], mask=(j[:, None] < N) & (k[None, :] < K), other=0.0)
        acc += tl.sum(w * x[None, :], axis=1)
    tl.store(y_ptr + row * N + j, tl.maximum(acc, 0.0), mask=j < N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        bound = 1.0 / math.sqrt(in_features)
        self.matrix = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.offset = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, x):
        M, K = x.shape
        N = self.matrix.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        linear_relu[(M, triton.cdiv(N, 64))](x, self.matrix, self.offset, y, N, K, BN=64, BK=32)
        return y
