"""Task: an LSTM cell applied step by step in a Python loop.

The number of steps is fixed by the shape, so this is no data-dependent control flow.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.cell = nn.LSTMCell(features, hidden)
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1], self.hidden)
        c = x.new_zeros(x.shape[1], self.hidden)
        steps = []
        for step in x:
            h, c = self.cell(step, (h, c))
            steps.append(h)
        return torch.stack(steps)


def get_inputs():
    return [torch.randn(6, 16, 24)]


def get_init_inputs():
    return [24, 32]
