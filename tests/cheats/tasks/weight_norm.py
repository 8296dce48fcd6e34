import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(in_features, out_features, bias=False))

    def forward(self, x):
        return x @ self.linear.weight.t()


def get_inputs():
    return [torch.randn(24, 32)]


def get_init_inputs():
    return [32, 20]
