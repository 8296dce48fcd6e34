"""Golds that only a device shows to be at fault: they draw on it, stray, race, or depend on what tuning chose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from golds import task
from test_script_golds import HEAD, NOISY, TUNED, TUNED_TEST, notes
from test_scripts import one, outcome

from autotriton.bench.scripts import ScriptExaminer
from autotriton.types import Outcome, Policy, Task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def trusting() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cuda", 4, 120.0, trust_candidate=True)
    yield examiner
    examiner.close()


def both(examiner: ScriptExaminer, given: Task, gold: str, wrong: str) -> str:
    """The gold passes and the wrong one does not; the gold's notes."""
    found = one(examiner, given, gold)
    assert found.official is not None
    assert found.official.executed, found.official
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert outcome(one(examiner, given, wrong)) is Outcome.WRONG
    return notes(found)


def test_numbers_drawn_on_the_device_are_the_same_for_gold_and_candidate(trusting: ScriptExaminer) -> None:
    given = task(NOISY, "\ntorch.manual_seed(0)\nresult = noisy(3000)\n", "noisy")
    assert "degenerate" not in both(trusting, given, NOISY, NOISY.replace("x + y", "x + 1.01 * y"))
    seeded = NOISY.replace("    return add(torch.randn", "    torch.cuda.manual_seed(7)\n    return add(torch.randn")
    assert outcome(one(trusting, task(seeded, "\nresult = noisy(3000)\n", "seeded"), seeded)) is Outcome.CORRECT


GATHER = (
    HEAD
    + """

@triton.jit
def _gather(x_ptr, index_ptr, out_ptr):
    row = tl.program_id(0)
    at = tl.load(index_ptr + row)
    tl.store(out_ptr + row, tl.load(x_ptr + at))


def gather(x, index, rows):
    out = torch.empty(rows, device=x.device)
    _gather[(rows,)](x, index, out)
    return out
"""
)
GATHER_TEST = """
x = torch.randn(64, device="cuda")
spare = torch.zeros(64, dtype=torch.int64, device="cuda")
del spare  # so that zeros lie behind the index
index = torch.tensor([3, 5, 7], device="cuda")
result = gather(x, index, 4)
"""


def test_gold_that_reads_an_index_it_was_not_given_is_repeated_with_zeros(trusting: ScriptExaminer) -> None:
    wrong = GATHER.replace("tl.load(x_ptr + at))", "tl.load(x_ptr + at) * 2)")
    found = both(trusting, task(GATHER, GATHER_TEST, "gather"), GATHER, wrong)
    assert "memory it was not given in `gather`" in found


SUMS = (
    HEAD
    + """

@triton.jit
def _sums(x_ptr, out_ptr, n, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * 16 + tl.arange(0, WIDTH)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + offsets), axis=0))


def sums(x):
    out = torch.empty(x.shape[0], device=x.device)
    _sums[(x.shape[0],)](x, out, x.numel(), WIDTH=32)
    return out
"""
)


def test_what_comes_from_behind_an_input_is_not_judged_and_the_rest_is(trusting: ScriptExaminer) -> None:
    """Only the last row's sum reaches past the end."""
    given = task(SUMS, "\nresult = sums(torch.randn(8, 16, device='cuda'))\n", "sums")
    both(trusting, given, SUMS, SUMS.replace("axis=0))", "axis=0) * 1.01)"))
    masked = SUMS.replace("tl.load(x_ptr + offsets)", "tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)")
    assert outcome(one(trusting, given, masked)) is Outcome.CORRECT


SPILL = (
    HEAD
    + """

@triton.jit
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * 2)


def double(x):
    out = torch.empty_like(x)
    _double[(1,)](x, out, x.numel(), BLOCK=64)
    return out


def double_into(x, out):
    _double[(1,)](x, out, x.numel(), BLOCK=64)
"""
)
SPILL_TEST = "\nx = torch.randn(40, device='cuda')\nresult = double(x)\ndouble_into(x, torch.zeros_like(x))\n"


def test_writing_past_the_end_is_held_against_a_candidate_unless_the_gold_does_it(trusting: ScriptExaminer) -> None:
    found = both(trusting, task(SPILL, SPILL_TEST, "spill"), SPILL, SPILL.replace("x * 2", "x * 2.02"))
    assert "the gold writes past the end of a tensor in call 1, 2" in found
    tidy = SPILL.replace("x * 2)", "x * 2, mask=offsets < n)")
    for test in ("\nresult = double(x)\n", "\ndouble_into(x, torch.zeros_like(x))\n"):
        given = task(tidy, "\nx = torch.randn(40, device='cuda')" + test, f"tidy{len(test)}")
        both(trusting, given, tidy, SPILL)


def test_elements_only_some_configurations_write_are_not_judged_and_the_others_are(trusting: ScriptExaminer) -> None:
    given = task(TUNED, TUNED_TEST, "tuned")
    both(trusting, given, TUNED, TUNED.replace("x * 2", "x * 2.1"))
    for size in (64, 32, 16):
        assert outcome(one(trusting, given, TUNED.replace("(64, 32, 16)", f"({size},)"))) is Outcome.CORRECT


def test_tuning_over_a_tensor_that_is_changed_in_place_does_not_count(trusting: ScriptExaminer) -> None:
    code = TUNED.replace("tl.store(out_ptr + offsets, x * 2,", "tl.store(x_ptr + offsets, x + 1,")
    code = code.replace("_double[(1,)]", "_double[lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)]")
    both(trusting, task(code, TUNED_TEST, "in_place"), code, code.replace("x + 1", "x + 1.01"))


RACING = (
    HEAD
    + """

@triton.jit
def _race(x_ptr, slots_ptr, out_ptr, n):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row)
    tl.store(out_ptr + row, x * 2)
    for _ in range(row * 7 % 13):
        x += tl.load(x_ptr + (row + 1) % n)
    tl.store(slots_ptr + row % 4, x)


def race(x):
    out, slots = torch.empty_like(x), torch.zeros(4, device=x.device)
    _race[(x.numel(),)](x, slots, out, x.numel())
    return out, slots
"""
)


def test_slots_several_programs_race_for_are_not_judged_and_the_rest_is(trusting: ScriptExaminer) -> None:
    given = task(RACING, "\nresult = race(torch.randn(3000, device='cuda'))\n", "racing")
    for _ in range(4):
        assert outcome(one(trusting, given, RACING)) is Outcome.CORRECT
    assert outcome(one(trusting, given, RACING.replace("x * 2", "x * 2.02"))) is Outcome.WRONG
