"""Task: arithmetic on inputs that are views: one transposed, one a slice with a step.

Neither is contiguous. A kernel that assumes rows lie side by side reads the wrong elements; strides must be honoured.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * y) + y.sum(dim=0)


def get_inputs():
    return [torch.randn(120, 80).t(), torch.randn(80, 240)[:, ::2]]


def get_init_inputs():
    return []
