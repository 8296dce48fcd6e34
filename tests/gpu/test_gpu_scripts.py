"""Script tasks on a device: both protocols natively, gradients, host tensors, and a kernel that faults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from golds import KERNELS, T_ANSWER, T_GOLD, G, T, task
from test_scripts import AUTOGRAD, OBJECTS, one, outcome

from autotriton.bench.scripts import ScriptExaminer
from autotriton.types import Outcome, Policy

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def strict() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cuda", 4, 120.0)
    yield examiner
    examiner.close()


@pytest.fixture(scope="module")
def trusting() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cuda", 4, 120.0, trust_candidate=True)
    yield examiner
    examiner.close()


def test_golds_pass_both_protocols(strict: ScriptExaminer) -> None:
    for given, code in ((G, KERNELS), (OBJECTS, AUTOGRAD), (T, T_ANSWER)):
        found = one(strict, given, code)
        assert found.official is not None
        assert found.official.executed, found.official
        assert outcome(found) is Outcome.CORRECT, found.verdict


def test_wrong_values_and_delegation_do_not_pass(strict: ScriptExaminer) -> None:
    assert outcome(one(strict, G, KERNELS.replace("x + y", "x + 1.001 * y"))) is Outcome.WRONG
    delegating = T_ANSWER.replace("    return out\n", "    return torch.add(input, other, alpha=alpha)\n")
    assert outcome(one(strict, T, delegating)) is Outcome.REJECTED


def test_torch_gold_passes_where_it_is_trusted(trusting: ScriptExaminer) -> None:
    assert outcome(one(trusting, T, T_GOLD)) is Outcome.CORRECT


def test_host_tensors_stay_on_the_host(trusting: ScriptExaminer) -> None:
    source = (
        "import torch\n\n\ndef double(x, table):\n    table += 1\n    return x * 2 + table.to(x.device)[0], table * 2\n"
    )
    test = "\nresult = double(torch.randn(8, device='cuda'), torch.randn(3))\n"
    assert outcome(one(trusting, task(source, test, "host"), source)) is Outcome.CORRECT


def test_faulting_kernel_costs_nobody_else_the_verdict(strict: ScriptExaminer) -> None:
    faulting = KERNELS.replace("tl.load(x_ptr + offsets, mask=mask)", "tl.load(x_ptr + offsets * 1000000007)")
    assert outcome(one(strict, G, faulting)) in (Outcome.RUNTIME_ERROR, Outcome.CRASHED, Outcome.WRONG)
    assert outcome(one(strict, G, KERNELS)) is Outcome.CORRECT
