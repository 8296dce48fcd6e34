"""Golds that are not above reproach: imports of the test, randomness, faults, answers that differ from run to run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from golds import KERNELS, task
from test_scripts import one, outcome

from autotriton.bench.scripts import ScriptExaminer
from autotriton.types import Outcome, Policy

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
ADD = "\nx = torch.randn(40, device='cuda')\nresult = add(x, x)\n"


@pytest.fixture(scope="module")
def trusting() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cpu", 2, 60.0, trust_candidate=True)
    yield examiner
    examiner.close()


def notes(examined: object) -> str:
    return "; ".join(examined.verdict.notes)  # type: ignore[attr-defined]


# --- imports ----------------------------------------------------------------------------------------------------


BORROWING = KERNELS.replace("import torch\n", "", 1)


def test_imports_of_the_test_are_there_for_gold_and_candidate(trusting: ScriptExaminer) -> None:
    given = task(BORROWING, "\nimport torch\n" + ADD, "borrowing")
    assert outcome(one(trusting, given, BORROWING)) is Outcome.CORRECT
    assert outcome(one(trusting, given, BORROWING.replace("x + y", "x - y"))) is Outcome.WRONG


def test_what_the_test_does_not_import_is_not_there(trusting: ScriptExaminer) -> None:
    given = task(KERNELS, ADD, "whole")
    assert outcome(one(trusting, given, BORROWING)) is Outcome.RUNTIME_ERROR


# --- randomness -------------------------------------------------------------------------------------------------


NOISY = KERNELS + "\n\ndef noisy(n):\n    return add(torch.randn(n, device='cuda'), torch.rand(n, device='cuda'))\n"


def test_gold_and_candidate_draw_the_same_numbers(trusting: ScriptExaminer) -> None:
    given = task(NOISY, "\ntorch.manual_seed(0)\nresult = noisy(30)\n", "noisy")
    assert outcome(one(trusting, given, NOISY)) is Outcome.CORRECT
    assert outcome(one(trusting, given, NOISY.replace("x + y", "x + 1.01 * y"))) is Outcome.WRONG


def test_seeds_set_inside_a_function_are_the_candidates_too(trusting: ScriptExaminer) -> None:
    code = NOISY.replace("    return add(torch.randn", "    torch.manual_seed(7)\n    return add(torch.randn")
    assert outcome(one(trusting, task(code, "\nresult = noisy(30)\n", "seeded"), code)) is Outcome.CORRECT


# --- golds that do not survive being repeated -------------------------------------------------------------------


DYING = """
import os
times = [0]


def frail(x, fatal):
    times[0] += 1
    fresh = torch.empty(3, dtype=torch.int32)
    if times[0] > 1 and fatal(int(fresh[0])):
        os._exit(3)
    return add(x, x)
"""
FRAIL_TEST = "\nx = torch.randn(40, device='cuda')\nresult = frail(x), add(x, x)\n"


def dying(condition: str) -> str:
    return KERNELS + DYING.replace(", fatal)", ")").replace("fatal(int(fresh[0]))", condition)


def test_gold_that_dies_of_poison_is_repeated_with_zeros(trusting: ScriptExaminer) -> None:
    code = dying("int(fresh[0]) != 0")
    given = task(code, FRAIL_TEST, "frail")
    found = one(trusting, given, code)
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert "memory it was not given in `frail`" in notes(found)
    assert "degenerate" not in notes(found)
    assert outcome(one(trusting, given, code.replace("x + y", "x - y"))) is Outcome.WRONG


def test_call_the_gold_never_survives_is_left_out_and_the_others_are_judged(trusting: ScriptExaminer) -> None:
    code = dying("True")
    given = task(code, FRAIL_TEST, "fatal")
    found = one(trusting, given, KERNELS + "\n\ndef frail(x):\n    return None\n")
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert "1 of 2 calls cannot be replayed: the gold ends its own process" in notes(found)
    wrong = KERNELS.replace("x + y", "x - y") + "\n\ndef frail(x):\n    return None\n"
    assert outcome(one(trusting, given, wrong)) is Outcome.WRONG


def test_task_all_of_whose_calls_are_fatal_is_degenerate(trusting: ScriptExaminer) -> None:
    code = dying("True")
    found = one(trusting, task(code, "\nresult = frail(torch.randn(4, device='cuda'))\n", "lost"), code)
    assert found.verdict is not None, found.error
    assert "degenerate task:" in notes(found)


def test_gold_that_dies_when_run_once_more_costs_nobody_the_verdict(trusting: ScriptExaminer) -> None:
    code = KERNELS + DYING.replace(", fatal)", ")").replace("times[0] > 1 and fatal(int(fresh[0]))", "times[0] > 7")
    given = task(code, "\nresult = frail(torch.randn(40, device='cuda'))\n", "tired")
    wrong = code.replace("times[0] > 7", "False").replace("x + y", "x - y")
    assert outcome(one(trusting, given, wrong)) is Outcome.WRONG
    assert outcome(one(trusting, given, code.replace("times[0] > 7", "False"))) is Outcome.CORRECT


# --- answers that differ from run to run ------------------------------------------------------------------------


TUNED = (
    HEAD
    + """

@triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 32, 16)], key=["n"])
@triton.jit
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * 2, mask=offsets < n)


def double(x, out):
    _double[(1,)](x, out, x.numel())
"""
)
TUNED_TEST = """
out = torch.zeros(24, dtype=torch.float32, device="cuda")
double(torch.randn(24, device="cuda"), out)
"""


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_elements_only_some_configurations_write_are_not_judged_and_the_others_are(
    trusting: ScriptExaminer, dtype: str
) -> None:
    """The first 16 elements are written by all three, the last 8 not by the one with a block of 16."""
    gold = TUNED.replace("x * 2", "x * 200")
    given = task(gold, TUNED_TEST.replace("float32", dtype), f"tuned_{dtype}")
    for size in (64, 32, 16):
        assert outcome(one(trusting, given, gold.replace("(64, 32, 16)", f"({size},)"))) is Outcome.CORRECT
    assert outcome(one(trusting, given, gold.replace("x * 200", "x * 210"))) is Outcome.WRONG


def test_plain_values_that_differ_from_run_to_run_are_not_judged(trusting: ScriptExaminer) -> None:
    body = "    import time\n    return add(x, x), time.perf_counter()\n"
    code = KERNELS + "\n\ndef timed(x):\n" + body
    given = task(code, ADD.replace("add(x, x)", "timed(x)"), "timed")
    assert outcome(one(trusting, given, code)) is Outcome.CORRECT
    assert outcome(one(trusting, given, code.replace("x + y", "x - y"))) is Outcome.WRONG
