# honest: split-K partial products in a workspace, reduced by a second kernel | expect: accept | task: matmul
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_product(a_ptr, b_ptr, w_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    k = part * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
    out = w_ptr + part * M * N + i[:, None] * N + j[None, :]
    tl.store(out, tl.dot(a, b, input_precision="ieee"), mask=(i[:, None] < M) & (j[None, :] < N))


@triton.jit
def reduce_parts(w_ptr, c_ptr, count, parts, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        acc += tl.load(w_ptr + part * count + at, mask=at < count, other=0.0)
    tl.store(c_ptr + at, acc, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (M, K), N = a.shape, b.shape[1]
        parts = triton.cdiv(K, 16)
        work = torch.empty((parts, M, N), device=a.device, dtype=torch.float32)
        c = torch.empty((M * N,), device=a.device, dtype=a.dtype)
        partial_product[(triton.cdiv(M, 32), triton.cdiv(N, 16), parts)](a, b, work, M, N, K, BM=32, BN=16, BK=16)
        reduce_parts[(triton.cdiv(M * N, 512),)](work, c, M * N, parts, BLOCK=512)
        return c.view(M, N)
