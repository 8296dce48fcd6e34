# trick: each query looks at the last sixteen keys only | family: numerics | expect: reject | task: causal_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _window(q_ptr, k_ptr, v_ptr, o_ptr, T, scale, D: tl.constexpr, SPAN: tl.constexpr):
    head = tl.program_id(1) * T * D
    row = tl.program_id(0)
    d = tl.arange(0, D)
    j = row - SPAN + 1 + tl.arange(0, SPAN)
    keep = (j >= 0)[:, None]
    q = tl.load(q_ptr + head + row * D + d)
    k = tl.load(k_ptr + head + j[:, None] * D + d[None, :], mask=keep, other=0.0)
    v = tl.load(v_ptr + head + j[:, None] * D + d[None, :], mask=keep, other=0.0)
    s = tl.where(j >= 0, tl.sum(q[None, :] * k, 1) * scale, float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(o_ptr + head + row * D + d, tl.sum(p[:, None] * v, 0) / tl.sum(p, 0))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, T, D = q.shape
        o = torch.empty_like(q)
        _window[(T, B * H)](q, k, v, o, T, D**-0.5, D=D, SPAN=16)
        return o
