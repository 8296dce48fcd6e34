"""Task: a transposed convolution that doubles height and width, followed by ReLU, as in a decoder.

In gather form each output pixel asks which inputs reach it; stuffing the input with zeros costs four times the work.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


def get_inputs():
    return [torch.randn(2, 16, 7, 7)]


def get_init_inputs():
    return [16, 8]
