"""Task: a running sum along time under a gate, y[t] = sigmoid(gate[t]) * (x[0] + ... + x[t]).

A scan: every output depends on all inputs before it, which a kernel computes with `tl.associative_scan`.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=1) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(32, 250), torch.randn(32, 250)]


def get_init_inputs():
    return []
