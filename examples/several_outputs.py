"""Task: standardise each row and hand back the statistics too, as a dict.

Whatever structure `forward` returns, a replacement must return the same one.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = x.mean(dim=-1, keepdim=True)
        deviation = (x - mean).pow(2).mean(dim=-1, keepdim=True).sqrt()
        return {"y": (x - mean) / (deviation + 1e-5), "mean": mean, "deviation": deviation}


def get_inputs():
    return [torch.randn(64, 300)]


def get_init_inputs():
    return []
