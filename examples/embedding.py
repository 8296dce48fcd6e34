"""Task: the first layer of a language model: token and position embeddings added, then layer normalisation.

The tokens are int64 indices; rows of the table are gathered, so the kernel's loads depend on loaded values.
"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, words: int, length: int, features: int):
        super().__init__()
        self.words = nn.Embedding(words, features)
        self.positions = nn.Parameter(torch.randn(length, features))
        self.norm = nn.LayerNorm(features)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(tokens) + self.positions)


def get_inputs():
    return [torch.randint(0, 200, (4, 24))]


def get_init_inputs():
    return [200, 24, 96]
