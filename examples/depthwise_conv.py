"""Task: a depthwise convolution with SiLU, the cheap half of a MobileNet block.

Each channel has a filter of its own, so there is no matrix product to be had: memory is what counts.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x))


def get_inputs():
    return [torch.randn(2, 6, 12, 12)]


def get_init_inputs():
    return [6]
