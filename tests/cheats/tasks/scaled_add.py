import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y, alpha):
        return x + alpha * y


def get_inputs():
    return [torch.randn(20, 110), torch.randn(20, 110), 0.75]


def get_init_inputs():
    return []
