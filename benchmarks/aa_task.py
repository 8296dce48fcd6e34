"""The A/A test's task: mid-sized, memory-bound, about 30 microseconds on an H200."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(4096, 2048)]


def get_init_inputs():
    return [2048]
