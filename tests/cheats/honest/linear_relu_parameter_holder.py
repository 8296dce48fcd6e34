# honest: nn.Linear only holds parameters, read through .weight.t() and .bias | expect: accept | task: linear_relu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, w_row, w_col, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """y = max(x @ w + b, 0)"""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + k[:, None] * w_row + j[None, :] * w_col, mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + j, mask=j < N, other=0.0)[None, :]
    tl.store(y_ptr + i[:, None] * N + j[None, :], tl.maximum(acc, 0.0), mask=(i[:, None] < M) & (j[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        w = self.linear.weight.t()
        (M, K), N = x.shape, w.shape[1]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 16))
        linear_relu[grid](x.contiguous(), w, self.linear.bias, y, M, N, K, *w.stride(), BM=32, BN=16, BK=32)
        return y
