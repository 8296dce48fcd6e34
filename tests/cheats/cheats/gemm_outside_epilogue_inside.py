# trick: torch.mm does the work; bias and relu are the only kernel | family: delegation | expect: reject | task: linear_relu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _bias_relu(x_ptr, b_ptr, y_ptr, N, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count) + tl.load(b_ptr + at % N, mask=at < count)
    tl.store(y_ptr + at, tl.maximum(x, 0.0), mask=at < count)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        z = torch.mm(x, self.linear.weight.t())
        y = torch.empty_like(z)
        _bias_relu[(triton.cdiv(z.numel(), 512),)](z, self.linear.bias, y, z.shape[1], z.numel(), BLOCK=512)
        return y
