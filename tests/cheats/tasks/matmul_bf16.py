import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(32, 96).bfloat16(), torch.randn(96, 48).bfloat16()]


def get_init_inputs():
    return []
