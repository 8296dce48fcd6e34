"""`autotriton.optimize` on a device: the kernel runs, for any batch, with gradients, and falls back where it must."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

import autotriton
from autotriton.live import FallbackWarning

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.norm = nn.LayerNorm(256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        return {"y": x + self.down(self.norm(torch.relu(self.up(x))))}


@pytest.fixture(scope="module")
def block():
    torch.manual_seed(0)
    return autotriton.optimize(Block().cuda(), torch.randn(128, 64, device="cuda"), budget=2, tune_s=5.0)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_it_was_timed(block):
    assert block.verdict.accepted
    assert block.verdict.timing is not None
    assert "x eager" in repr(block)


@torch.no_grad()
def test_kernel_runs_with_live_weights(block):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        x = torch.randn(128, 64, device="cuda")
        close(block(x)["y"], block.original(x)["y"])
        block.load_state_dict({name: torch.randn_like(value) * 0.1 for name, value in block.state_dict().items()})
        close(block(x)["y"], block.original(x)["y"])


@torch.no_grad()
def test_any_batch_by_the_kernel_or_by_the_original(block):
    with warnings.catch_warnings():
        warnings.simplefilter("error" if block.optimized.ranges else "ignore", FallbackWarning)
        for size in (128, 1, 77, 300):
            x = torch.randn(size, 64, device="cuda")
            close(block(x)["y"], block.original(x)["y"])


def test_gradients_are_the_originals(block):
    reference = copy.deepcopy(block.original)
    x, same = (torch.linspace(-1, 1, 128 * 64, device="cuda").reshape(128, 64).requires_grad_() for _ in range(2))
    block(x)["y"].square().mean().backward()
    reference(same)["y"].square().mean().backward()
    close(x.grad, same.grad)
    for one, other in zip(block.parameters(), reference.parameters(), strict=True):
        close(one.grad, other.grad)
        one.grad = None


def test_on_the_cpu_the_original_runs_and_says_so(block):
    on_cpu = copy.deepcopy(block).cpu()
    x = torch.randn(128, 64)
    with pytest.warns(FallbackWarning, match="do not run on cpu"):
        close(on_cpu(x)["y"], on_cpu.original(x)["y"])
    assert on_cpu.up.weight.device.type == "cpu"
