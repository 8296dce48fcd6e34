"""The inductor engine where there is a GPU: real templates timed, real settings read off, the same file emitted.

Every test captures its task once, in a process of its own that imports torch and compiles, and judges all it got
together. What needs no GPU (other operators, the cutting itself) is in tests/propose.
"""

from __future__ import annotations

from itertools import islice

import pytest

from autotriton.judge import JudgeOptions, judge_many
from autotriton.propose.compiler import CompilerProposer
from autotriton.tune import tiles
from autotriton.types import Candidate, Task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

FRAME = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {names}):
        return {forward}


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return []
"""


def task(name: str, forward: str, drawn: str, names: str = "x", init: str = "pass") -> Task:
    return Task(id=name, source=FRAME.format(init=f"        {init}", names=names, forward=forward, drawn=drawn))


TASKS = {
    one.id: one
    for one in (
        task("softmax", "torch.softmax(x, -1)", "torch.randn(4096, 1000)"),
        task("long_sum", "x.sum()", "torch.randn(1 << 22)"),
        task("transposed", "(x.T + y).sin()", "torch.randn(1024, 2048), torch.randn(2048, 1024)", "x, y"),
        task("linear", "F.gelu(self.linear(x))", "torch.randn(512, 1024)", init="self.linear = nn.Linear(1024, 768)"),
        task(
            "conv",
            "torch.relu(self.conv(x))",
            "torch.randn(8, 32, 56, 56)",
            init="self.conv = nn.Conv2d(32, 64, 3, padding=1)",
        ),
        task(
            "attention",
            "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "*(torch.randn(2, 8, 512, 64) for _ in range(3))",
            "q, k, v",
        ),
    )
}


def proposed(task: Task, most: int | None = 1, on_gpu: bool = True) -> list[Candidate]:
    proposer = CompilerProposer(timeout_s=300, engines=("inductor",), on_gpu=on_gpu)
    return list(islice(proposer.propose(task, []), most))


def assert_accepted(task: Task, candidates: list[Candidate]) -> None:
    """All of them, by one judge that opens the task once."""
    jobs = [(task, candidate.code) for candidate in candidates]
    for found in judge_many(jobs, JudgeOptions(timeout_s=240), workers=2):
        assert found.verdict is not None, found.error
        assert found.verdict.accepted, f"{candidates[found.index].proposer}: {found.verdict.message}"


@pytest.mark.parametrize("name", ["softmax", "transposed", "linear"])
def test_what_was_measured_is_accepted(name):
    candidates = proposed(TASKS[name])
    assert "Settings were measured on a GPU" in candidates[0].code
    assert "_inductor" not in candidates[0].code
    assert_accepted(TASKS[name], candidates)


def test_attention_is_the_flash_kernel():
    (candidate,) = proposed(TASKS["attention"])
    assert candidate.proposer == "compiler:inductor:attention"
    assert {"BLOCK_M", "BLOCK_N", "PRECISION"} <= set().union(*tiles.read(candidate.code).values())
    assert_accepted(TASKS["attention"], [candidate])


def test_the_gpu_can_be_left_alone():
    candidates = proposed(TASKS["softmax"], on_gpu=False)
    assert "Settings were chosen by rule" in candidates[0].code
    assert_accepted(TASKS["softmax"], candidates)


@pytest.mark.parametrize("name", ["long_sum", "conv"])
def test_variants_differ_and_are_accepted(name):
    candidates = proposed(TASKS[name], most=None)
    assert "Settings were measured on a GPU" in candidates[0].code
    assert len({candidate.code for candidate in candidates}) == len(candidates) >= 2
    assert_accepted(TASKS[name], candidates)
