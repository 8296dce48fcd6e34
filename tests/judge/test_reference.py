"""The reference's process from inside: what it keeps of small and of large tasks."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from autotriton.judge import admission, oracle, reference, rehearsal
from autotriton.judge.reference import Reference
from autotriton.types import Task

pytestmark = pytest.mark.interp

SOURCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(64, 64))
    def forward(self, x):
        return {expression}
def get_inputs():
    return [torch.randn(32, 64)]
def get_init_inputs():
    return []
"""


def opened(expression: str = "torch.relu(x @ self.w)", cases: int = 8) -> Reference:
    task = Task(id="t", source=SOURCE.replace("{expression}", expression))
    return Reference({"task": task.model_dump(mode="json"), "device": "cpu", "seed": 3, "cases": cases, "admit": True})


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many answers were alive whenever another one was begun."""
    made: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        counts.append(sum(one() is not None for one in made))
        found = oracle.expect(*args, **kwargs)
        made.append(weakref.ref(found))
        return found

    for module in (reference, admission, rehearsal):
        monkeypatch.setattr(module, "expect", watched)
    return counts


def test_every_case_of_a_small_task_is_kept(alive: list[int]) -> None:
    held = opened()
    assert not held.keeps_one
    for index in range(len(held.specs)):
        held._case(index)
    assert len(held.kept) == len(held.specs) == 8


@pytest.mark.parametrize(
    "expression", ["torch.relu(x @ self.w)", "x * 0 + self.w[0]", "torch.zeros_like(x) * self.w[0]"]
)
def test_of_a_large_task_one_answer_is_alive_at_a_time(
    alive: list[int], monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    monkeypatch.setattr(reference, "_LARGE_BYTES", 0)
    held = opened(expression)
    assert held.keeps_one
    assert {spec.distribution for spec in held.specs} == {"draw"}
    for index in (0, 1, 0, 1):
        held._case(index)
    assert len(alive) >= 5
    assert set(alive) == {0}


def test_a_task_with_large_answers_keeps_one_case_but_is_tried_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_KEPT_BYTES", 1 << 16)
    held = opened("x @ self.w", cases=4)
    assert held.keeps_one
    assert len(held.specs) == 4
    for index in range(4):
        held._case(index)
        assert len(held.kept) == 1


def test_a_large_tasks_conditioning_is_measured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_LARGE_BYTES", 0)
    moved = opened().conditioned(0)
    assert moved is not None
    answer = moved.outputs[0]
    assert answer.change.rms > 0
    assert answer.steps.rms > 0


def test_the_same_bits_have_the_same_fingerprint() -> None:
    from autotriton.judge.measure import fingerprint

    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64):
        one = torch.randn(50, 7).to(dtype)
        assert fingerprint(one) == fingerprint(one.clone())
        assert fingerprint(one) == fingerprint(one.t().contiguous().t())
        other = one.clone()
        other[3, 4] = one[3, 4] + 1 if dtype is not torch.bool else ~one[3, 4]
        assert fingerprint(one) != fingerprint(other)
        assert fingerprint(one) != fingerprint(one.reshape(7, 50))


def test_timed_inputs_are_no_multiples_of_each_other() -> None:
    """An answer kept from one block, scaled, must be wrong in the next."""
    held = opened()
    one, two = (held.rehearsal.make(seed)[0].args[0].flatten().double() for seed in (1, 2))
    cosine = float(one @ two / (one.norm() * two.norm()))
    assert abs(cosine) < 0.2
    assert torch.equal(one, held.rehearsal.make(1)[0].args[0].flatten().double())


def test_how_far_the_oracle_moves_is_measured_for_those_who_need_it() -> None:
    held = opened()
    assert held._case(1)[1].later is not None
    moved = held.conditioned(1)
    assert moved is not None
    assert moved is held._case(1)[1]
    assert moved.outputs[0].change.max > 0
    assert held.conditioned(1) is None
