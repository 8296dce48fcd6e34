"""Calls as a model makes them: kept once per signature, counted, and repeatable."""

from __future__ import annotations

from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
from autotriton.tune import clock, recording  # noqa: E402

pytestmark = pytest.mark.interp


@pytest.fixture
def module():
    made = ModuleType("candidate")
    text = """
def add(x, y, scale=1):
    return x + y * scale

def accumulate(total, x):
    total.add_(x)

def both(x):
    return add(x, x)
"""
    exec(text, made.__dict__)
    return made


def test_equal_signatures_are_kept_once_and_counted(module):
    x = torch.ones(4, 4)
    with recording.recorded(module, ["add"]) as calls:
        module.add(x, x)
        module.add(torch.zeros(4, 4), x)
        module.add(x, x, scale=2)
        module.add(x.t(), x)
        module.add(x.double(), x.double())
        module.add(x[:, :2], x[:, :2])
        assert module.both(x).equal(2 * x)
    assert [call.count for call in calls["add"].values()] == [3, 1, 1, 1, 1]
    assert module.add.__module__ == "builtins" or module.add.__code__.co_name == "add"
    first = next(iter(calls["add"].values()))
    assert first().equal(2 * x)


def test_a_wrapper_that_was_not_called_has_no_calls(module):
    with recording.recorded(module, ["add", "both"]) as calls:
        module.add(torch.ones(2), torch.ones(2))
    assert calls["both"] == {}


def test_arguments_written_into_are_put_back_and_count_as_results(module):
    total, x = torch.zeros(3), torch.ones(3)
    with recording.recorded(module, ["accumulate"]) as calls:
        module.accumulate(total, x)
    (call,) = calls["accumulate"].values()
    call()
    call()
    assert total.tolist() == [3.0, 3.0, 3.0]
    nothing, after = call.answer()
    assert nothing is None
    assert after.tolist() == [2.0, 2.0, 2.0]
    call.restore()
    assert total.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8", "bool", "complex64"])
def test_a_changed_element_changes_the_checksum(dtype):
    tensor = torch.ones(3, 5).to(getattr(torch, dtype)).t()
    before = recording.checksum(tensor)
    assert recording.checksum(tensor.clone()) == before
    tensor[2, 1] = 0
    assert recording.checksum(tensor) != before


def test_nan_and_empty_tensors_have_checksums():
    tensor = torch.full((4,), float("nan"))
    assert recording.checksum(tensor) == recording.checksum(tensor.clone())
    assert recording.checksum(torch.empty(0, 3)) == 0


# --- comparing answers ------------------------------------------------------------------------------------


def test_rounding_is_no_difference_and_another_answer_is():
    known = clock.sampled([torch.linspace(-1, 1, 1000), None])
    assert clock.difference(clock.sampled([torch.linspace(-1, 1, 1000) + 1e-4, None]), known) is None
    assert "off" in clock.difference(clock.sampled([torch.linspace(-1, 1, 1000) * 1.1, None]), known)
    assert "shape" in clock.difference(clock.sampled([torch.ones(999), None]), known)
    assert "instead of 2" in clock.difference(clock.sampled([torch.ones(1000)]), known)


def test_zeros_integers_and_nan_are_compared():
    assert clock.difference([torch.ones(4)], [torch.zeros(4)]) is not None
    assert clock.difference([torch.arange(9)], [torch.arange(9)]) is None
    assert clock.difference([torch.arange(9).flip(0)], [torch.arange(9)]) is not None
    nan = torch.tensor([1.0, float("nan"), float("inf")])
    assert clock.difference([nan.clone()], [nan]) is None
    assert clock.difference([torch.tensor([1.0, 2.0, float("inf")])], [nan]) is not None
    assert clock.difference([torch.tensor([float("nan")] * 3)], [torch.ones(3)]) is not None


def test_a_huge_answer_is_looked_at_in_part():
    (kept,) = clock.sampled([torch.zeros(3 << 20, dtype=torch.uint8)])
    assert kept.numel() == 1 << 20
