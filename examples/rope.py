"""Task: rotary position embedding, which turns each pair of features by an angle that grows with the position.

The tables of cosines and sines are buffers, as in real models; the two halves of a head are the pairs.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, head_size: int, length: int, base: float = 10000.0):
        super().__init__()
        rates = base ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), rates)
        self.register_buffer("cos", torch.cat((angles, angles), dim=-1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), dim=-1).sin())

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.turn(q), self.turn(k)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-right, left), dim=-1) * self.sin


def get_inputs():
    return [torch.randn(2, 4, 48, 32), torch.randn(2, 2, 48, 32)]


def get_init_inputs():
    return [32, 48]
