"""Task: RMS normalisation as in Llama, y = x / sqrt(mean(x^2) + eps) * weight, over the last axis.

One row fits into registers, so a good kernel reads x once and writes y once; eager makes five passes.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(8, 16, 384)]


def get_init_inputs():
    return [384]
