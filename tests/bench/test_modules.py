"""The examiner of KernelBench-style tasks, with the real judge on a CPU."""

from __future__ import annotations

import threading

import pytest

from autotriton.bench.examine import Job
from autotriton.bench.modules import ModuleExaminer
from autotriton.judge import JudgeOptions
from autotriton.types import Candidate, Outcome, Task, Tier

pytestmark = [pytest.mark.interp, pytest.mark.timeout(300)]

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {answer}

def get_inputs():
    return [torch.randn(8, 32)]
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(y_ptr + place, tl.maximum(x, 0.0), mask=place < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return {answer}
"""
HONEST, DECOY = KERNEL.format(answer="y"), KERNEL.format(answer="torch.relu(x)")
RELU = Task(id="relu", source=SOURCE.format(answer="torch.relu(x)"))
DROPOUT = Task(id="dropout", source=SOURCE.format(answer="torch.nn.functional.dropout(x)"))
ZERO = Task(id="zero", source=SOURCE.format(answer="torch.relu(x) * 0.0"))


@pytest.fixture(scope="module")
def examine():
    examiner = ModuleExaminer(JudgeOptions(tier=Tier.INTERPRET, device="cpu"), workers=2)

    def go(*pairs):
        jobs = [Job(n, task, Candidate(task_id=task.id, code=code)) for n, (task, code) in enumerate(pairs)]
        return sorted(examiner.examine(iter(jobs)), key=lambda examined: examined.job.number)

    yield go
    examiner.close()


def test_each_job_has_one_answer_with_both_counts(examine):
    honest, decoy, empty, broken = examine((RELU, HONEST), (RELU, DECOY), (RELU, ""), (RELU, "def ("))
    assert honest.verdict.outcome is Outcome.CORRECT
    assert (honest.official.called, honest.official.executed) == (True, True)
    assert decoy.verdict.outcome is Outcome.REJECTED, "torch does the work"
    assert (decoy.official.called, decoy.official.executed) == (True, True), "the suite's own script does not mind"
    assert empty.verdict.outcome is Outcome.NO_CODE
    assert not empty.official.called
    assert broken.verdict.outcome is Outcome.REJECTED
    assert not broken.official.called


def test_a_random_task_has_no_verdict_and_a_degenerate_one_is_marked(examine):
    random, degenerate = examine((DROPOUT, HONEST), (ZERO, HONEST))
    assert random.verdict is None
    assert "random by itself" in random.error
    assert degenerate.verdict is not None
    assert any(note.startswith("degenerate task:") for note in degenerate.verdict.notes)


def test_equal_programs_are_judged_once(monkeypatch):
    examiner = ModuleExaminer(JudgeOptions(tier=Tier.RULES, device="cpu"), workers=2)
    calls = []
    judge = examiner._judge.judge
    monkeypatch.setattr(examiner._judge, "judge", lambda *args, **more: (calls.append(1), judge(*args, **more))[1])
    try:
        jobs = [Job(n, RELU, Candidate(task_id="relu", code=HONEST)) for n in range(5)]
        found = list(examiner.examine(jobs))
    finally:
        examiner.close()
    assert sorted(examined.job.number for examined in found) == [0, 1, 2, 3, 4]
    assert len(calls) == 1
    assert all(examined.official is None for examined in found), "the rules alone say nothing about a run"


def test_jobs_are_drawn_as_workers_are_free_and_verdicts_do_not_wait_for_them():
    examiner = ModuleExaminer(JudgeOptions(tier=Tier.RULES, device="cpu"), workers=2)
    more = threading.Event()

    def jobs():
        yield Job(0, RELU, Candidate(task_id="relu", code=HONEST))
        more.wait(60)
        yield Job(1, RELU, Candidate(task_id="relu", code=DECOY))

    try:
        stream = examiner.examine(jobs())
        assert next(stream).job.number == 0
        more.set()
        assert [examined.job.number for examined in stream] == [1]
    finally:
        examiner.close()


def test_what_the_jobs_raise_reaches_the_caller():
    examiner = ModuleExaminer(JudgeOptions(tier=Tier.RULES, device="cpu"), workers=2)

    def jobs():
        yield Job(0, RELU, Candidate(task_id="relu", code=HONEST))
        raise ValueError("no more")

    try:
        with pytest.raises(ValueError, match="no more"):
            list(examiner.examine(jobs()))
    finally:
        examiner.close()
