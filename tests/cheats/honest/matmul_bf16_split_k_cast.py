# honest: atomics in fp32 zeros, then one cast to bfloat16 at the boundary | expect: accept | task: matmul_bf16
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def split_k(a_ptr, b_ptr, acc_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
    product = tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    tl.atomic_add(acc_ptr + i[:, None] * N + j[None, :], product, mask=(i[:, None] < M) & (j[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        acc = torch.zeros((M, N), device=a.device, dtype=torch.float32)
        split_k[(triton.cdiv(M, 32), triton.cdiv(N, 32), triton.cdiv(K, 32))](
            a.contiguous(), b.contiguous(), acc, M, N, K, BM=32, BN=32, BK=32)
        return acc.to(a.dtype)
