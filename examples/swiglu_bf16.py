"""Task: SwiGLU in bfloat16, y = silu(x A) * (x B).

Both products read the same x. Sixteen-bit inputs are held to sixteen-bit accuracy: sum in fp32, round at the end.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False, dtype=torch.bfloat16)
        self.value = nn.Linear(features, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.value(x)


def get_inputs():
    return [torch.randn(64, 96, dtype=torch.bfloat16)]


def get_init_inputs():
    return [96, 160]
