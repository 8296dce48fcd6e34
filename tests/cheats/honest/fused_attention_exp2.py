# honest: scale and log2(e) folded into q and exp2, so it rounds elsewhere than the reference | expect: accept | task: fused_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * T * D
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + i[:, None] * D + d[None, :], mask=i[:, None] < T, other=0.0) * scale
    top = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, tl.minimum(T, (tl.program_id(0) + 1) * BM), BN):
        j = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + j[None, :] * D + d[:, None], mask=j[None, :] < T, other=0.0)
        v = tl.load(v_ptr + head + j[:, None] * D + d[None, :], mask=j[:, None] < T, other=0.0)
        s = tl.dot(q, k, input_precision="ieee")
        s = tl.where((j[None, :] <= i[:, None]) & (j[None, :] < T), s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        top = new_top
    tl.store(o_ptr + head + i[:, None] * D + d[None, :], acc / total[:, None], mask=i[:, None] < T)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, T, D = q.shape
        o = torch.empty((B, H, T, D), device=q.device, dtype=q.dtype)
        attention[(triton.cdiv(T, 64), B * H)](
            q.contiguous(), k.contiguous(), v.contiguous(), o, T, D ** -0.5 * LOG2_E, D=D, BM=64, BN=32
        )
        return o
