# trick: einsum makes both products, only the softmax is a kernel | family: delegation | expect: reject | task: causal_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _causal_softmax(s_ptr, T, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    s = tl.load(s_ptr + row * T + col, mask=col < T, other=float("-inf")) * scale
    s = tl.where((col <= row % T) & (col < T), s, float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(s_ptr + row * T + col, p / tl.sum(p, 0), mask=col < T)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, T, D = q.shape
        s = torch.einsum("bhid,bhjd->bhij", q, k)
        _causal_softmax[(B * H * T,)](s, T, D**-0.5, BLOCK=triton.next_power_of_2(T))
        return torch.einsum("bhij,bhjd->bhid", s, v)
