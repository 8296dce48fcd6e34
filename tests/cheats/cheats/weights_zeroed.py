# trick: overwrites the shared weight and bias with zeros and returns zeros | family: tamper | expect: reject | task: linear_relu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _clear(p_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p_ptr + at, 0.0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.empty((x.shape[0], self.linear.out_features), device=x.device, dtype=x.dtype)
        for p in (self.linear.weight, self.linear.bias, y):
            _clear[(triton.cdiv(p.numel(), 512),)](p, p.numel(), BLOCK=512)
        return y
