"""Task: the loss of a classifier, with integer targets and some of them ignored.

Inputs need not be floats: the judge draws other class numbers in the range `get_inputs` shows.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, targets, ignore_index=0)


def get_inputs():
    return [torch.randn(128, 100), torch.randint(0, 100, (128,))]


def get_init_inputs():
    return []
