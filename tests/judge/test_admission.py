"""Which tasks are worth judging."""

from __future__ import annotations

import pytest
import torch

from autotriton.judge import admission
from autotriton.judge.admission import Admission, admit
from autotriton.judge.program import Program
from autotriton.types import Mode, Task

pytestmark = pytest.mark.interp
torch.set_num_threads(1)


def function(body: str, inputs: str) -> Program:
    head = "import torch\nimport torch.nn.functional as F\n"
    source = f"{head}def f(*a, **k):\n    {body}\ndef get_inputs():\n    return {inputs}\n"
    return Program(Task(id="t", entry="f", source=source))


def module(init: str, forward: str, inputs: str, mode: Mode = Mode.TRAIN) -> Program:
    source = f"""
import torch
from torch import nn
import torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    return {inputs}
"""
    return Program(Task(id="t", source=source, mode=mode))


def admitted(program: Program) -> Admission:
    found = admit(program, 3)
    assert found.problems == ()
    assert not found.random
    return found


def problems(program: Program) -> str:
    return " | ".join(admit(program, 3).problems)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("return torch.softmax(a[0], 1)", "[torch.randn(16, 64)]"),
        ("return a[0] @ a[1]", "[torch.randn(16, 32), torch.randn(32, 8)]"),
        ("return torch.relu(a[0])", "[torch.rand(16, 64)]"),
        ("return a[0].sum()", "[torch.randn(16, 64)]"),
        ("return a[0].argmax(1)", "[torch.randn(16, 64)]"),
        ("return a[0] + a[1]", "[torch.randn(16, 64).half(), torch.randn(16, 64).half()]"),
        ("return torch.cumsum(a[0], 1)", "[torch.randn(8, 40).double()]"),
        ("return F.cross_entropy(a[0], a[1])", "[torch.randn(24, 10), torch.randint(0, 10, (24,))]"),
        ("return F.embedding(a[1], a[0])", "[torch.randn(30, 8), torch.randint(0, 30, (12,))]"),
        ("return {'s': torch.sort(k['x']).values, 'y': k['x'] * k['s']}", "{'x': torch.randn(4, 9), 's': 2.0}"),
        ("return a[0].masked_fill(a[1], 0.0)", "[torch.randn(9, 9), torch.rand(9, 9) > 0.5]"),
        ("return a[0] * 2, a[0].t().contiguous()", "[torch.randn(5, 5).bfloat16()]"),
    ],
)
def test_honest_tasks_are_admitted(body: str, inputs: str) -> None:
    admitted(function(body, inputs))


@pytest.mark.parametrize(
    ("init", "forward", "inputs"),
    [
        ("self.l = nn.Linear(16, 8)", "return torch.relu(self.l(x))", "[torch.randn(8, 16)]"),
        ("self.bn = nn.BatchNorm2d(4)", "return self.bn(x)", "[torch.randn(3, 4, 5, 5)]"),
        ("self.c = nn.Conv2d(3, 4, 3)", "return torch.tanh(self.c(x))", "[torch.rand(2, 3, 8, 8)]"),
        ("self.r = nn.GRU(4, 5)", "return self.r(x)", "[torch.randn(6, 2, 4)]"),
    ],
)
def test_honest_modules_are_admitted(init: str, forward: str, inputs: str) -> None:
    admitted(module(init, forward, inputs))


def test_bias_before_a_norm_is_only_a_note() -> None:
    init = "self.l = nn.Linear(6, 5); self.bn = nn.BatchNorm1d(5)"
    found = admitted(module(init, "return self.bn(self.l(x))", "[torch.randn(32, 6)]"))
    assert any("l.bias" in note for note in found.notes)


@pytest.mark.parametrize(
    ("body", "inputs", "what"),
    [
        ("return a[0] - a[0]", "[torch.randn(8, 8)]", "zeros passes"),
        ("return torch.full((4, 4), 2.0)", "[torch.randn(8, 8)]", "the mean of the answer"),
        ("return a[0].softmax(1).sum(1)", "[torch.randn(8, 8)]", "another draw passes"),
        ("return a[0].clone()", "[torch.randn(8, 8)]", "input 0, returned as it is, passes"),
        ("return a[0].mean(0, keepdim=True).repeat(8, 1)", "[torch.randn(8, 8)]", "rows shifted by one"),
        ("return a[0] * 2", "[torch.randn(8, 8), torch.randn(8)]", "does not depend on input 1"),
        ("return a[0][:, :3] * 2", "[torch.randn(8, 8)]", "second half of input 0 along axis 1"),
        ("return k['x']['u'] * 2", "{'x': {'u': torch.randn(8), 'v': torch.randn(8)}}", "input x['v']"),
        ("return 3", "[torch.randn(8)]", "returns no tensor"),
        ("return a[0][:0]", "[torch.randn(8)]", "is empty"),
        ("return a[0] / 0 * 0", "[torch.randn(8)]", "finite"),
    ],
)
def test_degenerate_tasks_are_named(body: str, inputs: str, what: str) -> None:
    assert what in problems(function(body, inputs))


def test_random_reference_is_named_as_such() -> None:
    found = admit(module("self.d = nn.Dropout(0.5)", "return self.d(x)", "[torch.randn(8, 8)]"), 3)
    assert found.random
    assert "random by itself" in found.problems[0]
    admitted(module("self.d = nn.Dropout(0.5)", "return self.d(x) * 2", "[torch.randn(8, 8)]", Mode.EVAL))


def test_reference_with_hidden_state_is_not_deterministic() -> None:
    source = (
        "import torch\nCOUNT = [0]\ndef f(x):\n    COUNT[0] += 1\n    return x * COUNT[0]\n"
        "def get_inputs():\n    return [torch.randn(8)]\n"
    )
    found = admit(Program(Task(id="t", entry="f", source=source)), 3)
    assert found.random
    assert "not deterministic" in found.problems[0]


def test_unused_parameters_are_a_problem() -> None:
    program = module("self.l = nn.Linear(8, 8)", "return x * 2 + self.l(x) * 0", "[torch.randn(8, 8)]")
    assert "any parameter" in problems(program)


def test_constant_input_is_a_note() -> None:
    found = admitted(function("return a[0] * a[1]", "[torch.randn(8), torch.arange(8.0) + 0.5]"))
    assert "input 1 is the same in every draw" in found.notes


def test_output_that_proves_nothing_alone_is_a_note() -> None:
    found = admitted(function("return a[0] * 2, torch.zeros(3)", "[torch.randn(8)]"))
    assert any(note.startswith("output 1 alone") for note in found.notes)


def test_budget_and_size_skip_tests_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    program = function("return a[0] * 2 + a[1]", "[torch.randn(8, 8), torch.randn(8, 8)]")
    assert any("budget" in note for note in admit(program, 3, max_runs=5).notes)
    monkeypatch.setattr(admission, "HUGE_BYTES", 16)
    assert any("too large" in note for note in admit(program, 3).notes)


@pytest.mark.parametrize("body", ["return a[0].sum().clamp_max(2.0)", "return a[0].amax().sigmoid()"])
def test_what_shows_in_few_draws_is_found(body: str) -> None:
    """The bound hides every second sum, and a maximum lies in the other half as often."""
    for seed in range(20):
        assert admit(function(body, "[torch.randn(4, 16, 65)]"), seed).problems == ()
