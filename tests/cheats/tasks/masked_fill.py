import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(mask, -1.0e4)


def get_inputs():
    return [torch.randn(16, 150), torch.rand(16, 150) < 0.4]


def get_init_inputs():
    return []
