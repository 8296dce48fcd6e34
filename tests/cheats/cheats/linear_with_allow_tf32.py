# trick: tl.dot with allow_tf32=True in an fp32 layer | family: numerics | expect: reject | task: linear_relu | gpu-only
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _linear_relu(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + j[None, :] * K + k[:, None], mask=(j[None, :] < N) & (k[:, None] < K), other=0.0)
        acc += tl.dot(x, w, allow_tf32=True)
    acc += tl.load(b_ptr + j, mask=j < N, other=0.0)[None, :]
    tl.store(y_ptr + i[:, None] * N + j[None, :], tl.maximum(acc, 0.0), mask=(i[:, None] < M) & (j[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        (M, K), N = x.shape, self.linear.weight.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        _linear_relu[grid](x, self.linear.weight, self.linear.bias, y, M, N, K, BM=32, BN=32, BK=32)
        return y
