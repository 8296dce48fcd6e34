"""One small task and a tunable candidate for it, whose settings can be made to misbehave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotriton.types import Candidate, Task

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width))

    def forward(self, x):
        return torch.relu(x) * self.weight

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return [32]
"""
CODE = '''"""relu(x) * weight"""
import os
import time

import torch
import triton
import triton.language as tl

TILES = {"relu_scale": {"BLOCK": 16, "MODE": "honest", "num_warps": 4}}


@triton.jit
def relu_scale_kernel(x_ptr, weight_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    x = tl.load(x_ptr + at, mask=keep)
    weight = tl.load(weight_ptr + at % width, mask=keep)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * weight, mask=keep)


def relu_scale(x, weight):
    tiles = TILES["relu_scale"]
    if tiles["MODE"] == "dies":
        os._exit(7)
    if tiles["MODE"] == "hangs":
        time.sleep(600)
    if tiles["MODE"] == "raises":
        raise ValueError("no such mode")
    y = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, tiles["BLOCK"]),)
    relu_scale_kernel[grid](x, weight, y, n, x.shape[-1], BLOCK=tiles["BLOCK"], num_warps=tiles["num_warps"])
    return y if tiles["MODE"] == "honest" else torch.zeros_like(y)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width))

    def forward(self, x):
        return relu_scale(x, self.weight)
'''
Setting = dict[str, int | str | bool]


def setting(block: int, mode: str = "honest") -> Setting:
    return {"BLOCK": block, "MODE": mode, "num_warps": 4}


@pytest.fixture
def task() -> Task:
    return Task(id="relu_scale", source=TASK)


@pytest.fixture
def code() -> str:
    return CODE


@pytest.fixture
def make_setting() -> Callable[..., Setting]:
    return setting


@pytest.fixture
def make_candidate() -> Callable[..., Candidate]:
    """A candidate with these settings to choose from; the file's own is a block of 16, slow in the interpreter."""

    def make(*choices: Setting, code: str = CODE) -> Candidate:
        given = {"relu_scale": (setting(16), *choices)}
        return Candidate(task_id="relu_scale", code=code, proposer="compiler:templates", choices=given)

    return make
