# trick: rows and columns are rounded to 8 bits before the product | family: numerics | expect: reject | task: matmul
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _quantised_mm(a_ptr, b_ptr, c_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = tl.load(a_ptr + row * K + k, mask=k < K, other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    sa = tl.max(tl.abs(a), 0) / 127.0 + 1e-20
    sb = tl.max(tl.abs(b), 0) / 127.0 + 1e-20
    qa = tl.floor(a / sa + 0.5)
    qb = tl.floor(b / sb[None, :] + 0.5)
    tl.store(c_ptr + row * N + n, tl.sum(qa[:, None] * qb, 0) * sa * sb, mask=n < N)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        _quantised_mm[(M,)](a, b, c, N, K, BN=triton.next_power_of_2(N), BK=triton.next_power_of_2(K))
        return c
