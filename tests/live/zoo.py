"""Modules as users have them: each with an example call, by name. None of them can be built from its source alone."""

from __future__ import annotations

import functools
from collections import namedtuple
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Output:
    """What model libraries return."""

    loss: torch.Tensor | None
    logits: torch.Tensor


class TiedLanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, labels=None):
        logits = self.head(self.embed(ids))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Output(loss, logits)


class Containers(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act  # any callable: a closure, a lambda
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.by_name = nn.ModuleDict({"a-b": nn.Linear(8, 4), "plain": nn.Linear(8, 4)})
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(2)])
        self.extra = nn.ParameterDict({"shift": nn.Parameter(torch.randn(4))})
        self.shared = self.layers[0]

    def forward(self, x):
        for layer in [*self.layers, self.shared]:
            x = x + self.act(layer(x))
        return self.by_name["a-b"](x) * self.scales[1] + self.by_name["plain"](x) + self.extra["shift"]


class Attention(nn.Module):
    """A mask as a buffer, tables as plain attributes, a constant in forward, a dict in and a dict out."""

    def __init__(self, length=6, width=8):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)
        self.table = torch.linspace(0, 1, length)

    def forward(self, batch, *, scale=None):
        q, k, v = self.qkv(batch["x"]).chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5) + self.table
        weights = scores.masked_fill(~self.mask, float("-inf")).softmax(-1)
        return {"y": weights @ v * torch.tensor([1.0, 2.0] * 4), "weights": (weights, None), "n": 3}


class Counting(nn.Module):
    """Buffers that change: norm statistics and a counter that the result depends on."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        return self.norm(x) * self.steps


class Reshaping(nn.Module):
    """Sizes that depend on the batch, under no_grad in part, and a pair of results."""

    def forward(self, x):
        with torch.no_grad():
            largest = x.abs().max()
        return Pair(x.reshape(x.shape[0] * 2, -1).softmax(-1), largest + torch.arange(x.shape[0], device=x.device))


def by_keyword(forward):
    """As model libraries decorate: what they fill in themselves has to be passed by name."""

    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, cached=kwargs.pop("cached", None) or False, **kwargs)

    return wrapper


class Decorated(nn.Module):
    @by_keyword
    def forward(self, x, cached=None, dtype=torch.float32, anything=object):
        return {"x": x.to(dtype) * 2}


def hooked():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    module[0].register_forward_hook(lambda _, args, output: output * 2)
    module.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    return module


def weight_normed():
    return torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))


def in_closure(factor):
    class Local(nn.Module):
        def forward(self, x, *rest, power=1, **named):
            return (x * factor) ** power + sum(rest) + named["shift"]

    return Local()


def cases():
    """name -> (module, example inputs, example keyword arguments)"""
    torch.manual_seed(0)
    ids = torch.randint(0, 20, (3, 7))
    return {
        "sequential": (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(5, 8), None),
        "tied": (TiedLanguageModel(20, 8), (ids, ids.roll(1, 1)), None),
        "containers": (Containers(lambda x: torch.tanh(x) * 0.5), torch.randn(3, 8), None),
        "attention": (Attention(), ({"x": torch.randn(2, 6, 8)},), {"scale": 0.5}),
        "counting": (Counting(), torch.randn(6, 5), None),
        "reshaping": (Reshaping(), [torch.randn(4, 6)], None),
        "hooked": (hooked(), torch.randn(3, 4), None),
        "weight norm": (weight_normed(), torch.randn(3, 4), None),
        "closure": (in_closure(3.0), (torch.randn(3, 4), torch.randn(4), torch.randn(4)), {"shift": torch.randn(3, 1)}),
        "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 5, 8), None),
        "lstm": (nn.LSTM(4, 6, batch_first=True), torch.randn(2, 3, 4), None),
        "channels last": (
            nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
            torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
            None,
        ),
        "transposed": (nn.Linear(4, 3), torch.randn(4, 6).t(), None),
        "expanded": (nn.Linear(4, 3), torch.randn(1, 4).expand(6, 4), None),
        "bfloat16": (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).bfloat16(), torch.randn(3, 8).bfloat16(), None),
        "keywords": (TiedLanguageModel(20, 8), {"ids": ids}, None),
        "decorated": (Decorated(), {"x": torch.randn(3, 4)}, None),
        "frozen": (nn.Linear(4, 4).requires_grad_(False), torch.randn(2, 4), None),
    }
