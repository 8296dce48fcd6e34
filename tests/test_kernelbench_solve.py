"""How one problem of the benchmark is decided where a GPU can time: with judges that answer by rule, and no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotriton.errors import JudgeError, ProposerError, TaskError
from autotriton.judge.pool import GpuLock
from autotriton.types import Candidate, Outcome, Policy, Speedup, Task, Tier, Timing, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import kernelbench_solve as solve

TASK = Task(id="1_x", source="reference")
CHOICES = {"wrapper": ({"BLOCK": 1}, {"BLOCK": 2})}


def verdict(ms: float | None = None, outcome: Outcome = Outcome.CORRECT, message: str = "ok", **more) -> Verdict:
    timing = None if ms is None else Timing(median_ms=ms, p20_ms=ms, p80_ms=ms, samples=9, method="test")
    known = {"policy": Policy.STRICT, "tier": Tier.TIME, "timing": timing, **more}
    return Verdict(outcome=outcome, message=message, **known)


def timed(ms: float, eager_ms: float = 4.0, compile_ms: float = 2.0) -> Verdict:
    baselines = {"eager": eager_ms, "compile": compile_ms}
    return verdict(
        ms,
        baselines={name: verdict(value).timing for name, value in baselines.items()},
        speedups={
            name: Speedup(ratio=value / ms, low=value / ms, high=value / ms) for name, value in baselines.items()
        },
    )


WRONG = verdict(outcome=Outcome.WRONG, message="values are off")


class RuleJudge:
    def __init__(self, rule: Callable[[str], Verdict]) -> None:
        self.rule, self.asked = rule, []

    def judge(self, task, code, progress=None, *, alone=None) -> Verdict:
        self.asked.append((code, "beside" if alone is not None else "alone"))
        return self.rule(code)


class ListProposer:
    def __init__(self, *codes: str, error: Exception | None = None) -> None:
        self.codes, self.error = codes, error

    def propose(self, task, history):
        for code in self.codes:
            yield Candidate(task_id=task.id, code=code, proposer="p", choices=CHOICES if "tunable" in code else {})
        if self.error is not None:
            raise self.error


class References:
    def forget(self, task) -> None:
        pass


class Processes:
    references = References()


@pytest.fixture
def make(monkeypatch):
    """A solver on a pretended GPU; a tunable candidate becomes `tuned CODE`."""

    def tune(task, candidate, **_):
        return candidate.model_copy(update={"code": f"tuned {candidate.code}", "parent_id": candidate.id})

    monkeypatch.setattr(solve, "tune", tune)

    def make(proposer, *, run=lambda code: verdict(), rough=None, full=timed, plain=None) -> solve.Solver:
        solver = object.__new__(solve.Solver)
        solver.options, solver.proposer, solver.device = solve.SolverOptions(), proposer, "cuda"
        solver.processes, solver.lock, solver.room = Processes(), GpuLock(), solve.Room(100.0)
        solver._run, solver._rough = RuleJudge(run), RuleJudge(rough or (lambda code: verdict(1.0)))
        solver._full = RuleJudge(full if full is not timed else lambda code: timed(1.0))
        solver._plain = RuleJudge(plain or (lambda code: timed(4.0)))
        solver._bytes = lambda task: 10.0
        return solver

    return make


def test_one_correct_candidate_is_timed_once(make):
    solver = make(ListProposer("a"))
    row = solver.solve(TASK)
    assert (row["status"], row["ms"], row["proposer"], row["code"]) == ("correct", 1.0, "p", "a")
    assert row["speedups"]["compile"]["ratio"] == 2.0
    assert solver._rough.asked == []
    assert solver._full.asked == [("a", "beside")]


def test_of_several_the_fastest_is_timed_against_the_baselines(make):
    times = {"a": 3.0, "tuned tunable b": 1.0, "c": 2.0}
    run = {"d": WRONG}
    solver = make(
        ListProposer("a", "tunable b", "c", "d"),
        run=lambda code: run.get(code, verdict()),
        rough=lambda code: verdict(times[code]),
    )
    row = solver.solve(TASK)
    assert (row["code"], row["proposer"]) == ("tuned tunable b", "p+tuned")
    assert [code for code, _ in solver._full.asked] == ["tuned tunable b"]
    assert row["seconds"].keys() == {"propose", "judge", "tune", "compare", "time"}
    assert [one["outcome"] for one in row["attempts"] if one["step"] == "judge"] == ["correct"] * 3 + ["wrong"]


def test_tuned_code_the_judge_refuses_gives_way_to_what_it_was(make):
    solver = make(ListProposer("tunable a"), full=lambda code: WRONG if code.startswith("tuned") else timed(1.0))
    row = solver.solve(TASK)
    assert (row["status"], row["code"], row["proposer"]) == ("correct", "tunable a", "p")


def test_without_a_correct_kernel_the_baselines_are_measured_with_the_reference_itself(make):
    solver = make(ListProposer("a"), run=lambda code: WRONG)
    row = solver.solve(TASK)
    assert (row["status"], row["reason"]) == ("failed", "wrong: values are off")
    assert row["baselines_ms"] == {"eager": 4.0, "compile": 2.0}
    assert solver._plain.asked == [("reference", "beside")]


def test_a_proposer_that_gives_up_is_the_reason(make):
    row = make(ListProposer(error=ProposerError("aten::fft is not supported"))).solve(TASK)
    assert (row["status"], row["reason"]) == ("failed", "no candidate: aten::fft is not supported")
    row = make(ListProposer("a", error=ValueError("a bug"))).solve(TASK)
    assert row["status"] == "correct"


def test_a_random_reference_is_left_out_and_another_bad_task_fails(make):
    def random(code):
        raise TaskError("task 1_x is random by itself: the same input gives different answers")

    assert make(ListProposer("a"), run=random).solve(TASK)["status"] == "excluded"

    def broken(code):
        raise TaskError("task 1_x: Model.forward raised TypeError")

    assert make(ListProposer("a"), run=broken).solve(TASK)["status"] == "failed"


def test_a_correct_kernel_that_cannot_be_timed_stays_correct(make):
    def gone(code):
        raise JudgeError("the GPU fell off")

    row = make(ListProposer("a"), full=gone).solve(TASK)
    assert (row["status"], row["ms"]) == ("correct", None)
    assert row["notes"] == ["not timed: the GPU fell off"]


def test_a_broken_judge_is_no_verdict(make):
    def broken(code):
        raise JudgeError("cannot fork")

    with pytest.raises(JudgeError):
        make(ListProposer("a"), run=broken).solve(TASK)


def test_where_memory_was_short_it_is_judged_again_alone(make):
    answers = [verdict(outcome=Outcome.RUNTIME_ERROR, message="out of memory: 1 GiB"), verdict()]
    solver = make(ListProposer("a"), run=lambda code: answers.pop(0))
    assert solver.solve(TASK)["status"] == "correct"
    assert solver._run.asked == [("a", "beside"), ("a", "alone")]


def test_a_tuner_that_fails_leaves_the_candidate(make, monkeypatch):
    def tune(*args, **kwargs):
        raise OSError("no such device")

    solver = make(ListProposer("tunable a"))
    monkeypatch.setattr(solve, "tune", tune)
    row = solver.solve(TASK)
    assert (row["status"], row["code"]) == ("correct", "tunable a")
    assert row["tuning"] == ["tuning failed: OSError: no such device"]


def test_the_gate_holds_others_off_while_something_is_timed():
    lock = GpuLock()
    gate, order = solve.Gate(lock), []

    @contextmanager
    def entered(which, name):
        with which():
            order.append(name)
            yield

    with entered(gate.shared, "shared"), entered(gate.shared, "shared"):
        assert lock._sharing == 2
    with entered(gate.alone, "alone"):
        assert lock._exclusive
    assert lock._sharing == 0
    assert not lock._exclusive
    assert order == ["shared", "shared", "alone"]
