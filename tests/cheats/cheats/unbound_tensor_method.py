# trick: calls the method through type(x) instead of the instance | family: delegation | expect: reject | task: causal_attention
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _move(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < count), mask=at < count)


def finish(t):
    t = t.contiguous()
    out = torch.empty_like(t)
    _move[(triton.cdiv(t.numel(), 512),)](t, out, t.numel(), BLOCK=512)
    return out


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        T = type(q)
        s = T.mul(T.matmul(q, T.mT.__get__(k)), q.shape[-1] ** -0.5)
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return finish(T.matmul(T.softmax(T.masked_fill(s, hidden, float("-inf")), -1), v))
