"""How one problem of the benchmark is decided where a GPU can time: with judges that answer by rule, and no GPU."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotriton.errors import JudgeError, ProposerError, TaskError
from autotriton.judge.floor import Floor
from autotriton.judge.pool import GpuLock
from autotriton.judge.room import Room
from autotriton.types import Candidate, Machine, Outcome, Policy, Speedup, Task, Tier, Timing, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import kernelbench_solve as solve
from kernelbench_baselines import BaselineCache, Baselines

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

    def judge(self, task, code, progress=None, *, aside, whole_gpu=False) -> Verdict:
        self.asked.append((code, "whole" if whole_gpu else "beside"))
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
    references, floor = References(), Floor()


@pytest.fixture
def make(monkeypatch, tmp_path):
    """A solver on a pretended GPU; a tunable candidate becomes `tuned CODE`."""

    def tune(task, candidate, **_):
        return candidate.model_copy(update={"code": f"tuned {candidate.code}", "parent_id": candidate.id})

    monkeypatch.setattr(solve, "tune", tune)

    def make(
        *, run=lambda code: verdict(), full=None, eager=None, plain=None, tune_s=10.0, known=None, raced=None
    ) -> solve.Solver:
        times = raced or {}
        monkeypatch.setattr(solve, "race", lambda task, given, **_: [times.get(one.code) for one in given])
        solver = object.__new__(solve.Solver)
        solver.options, solver.device = solve.SolverOptions(tune_s=tune_s), "cuda"
        solver.processes, solver.lock, solver.room = Processes(), GpuLock(), Room(100.0)
        solver.races = threading.Semaphore(1)
        solver._run, solver._full = RuleJudge(run), RuleJudge(full or (lambda code: timed(1.0)))
        solver._eager = RuleJudge(eager or (lambda code: timed(1.0)))
        solver._plain = RuleJudge(plain or (lambda code: timed(4.0)))
        solver._size = lambda task: {"bytes": 1, "output_bytes": 1, "peak_bytes": 1}
        solver.baselines, solver._fresh = BaselineCache(tmp_path / "baselines.jsonl", Machine(gpu="G")), set()
        if known is not None:
            solver.baselines.put(TASK, known)
        return solver

    return make


def test_one_candidate_is_judged_and_timed_at_once(make):
    solver = make()
    row = solver.solve(TASK, ListProposer("a"))
    assert (row["status"], row["ms"], row["proposer"], row["code"]) == ("correct", 1.0, "p", "a")
    assert row["speedups"]["compile"]["ratio"] == 2.0
    assert solver._run.asked == []
    assert solver._full.asked == [("a", "beside")]


def test_without_time_for_tuning_nothing_is_judged_twice(make):
    solver = make(tune_s=0.0)
    assert solver.solve(TASK, ListProposer("tunable a"))["code"] == "tunable a"
    assert solver._run.asked == []


def test_the_fastest_in_a_race_are_tuned_and_race_again_and_the_winner_is_judged(make):
    raced = {"a": 3.0, "tunable b": 1.5, "d": None, "tuned tunable b": 1.7, "tunable e": 1.4}
    solver = make(raced=raced | {"tuned tunable e": 1.2})
    row = solver.solve(TASK, ListProposer("a", "tunable b", "d", "tunable e"))
    assert row["code"] == "tuned tunable e"
    assert [code for code, _ in solver._full.asked] == ["tuned tunable e"]
    assert row["seconds"].keys() == {"propose", "wait", "race", "tune", "time"}
    times = [one["ms"] for one in row["attempts"] if one["step"] == "race"]
    assert times == [3.0, 1.5, None, 1.4, 1.2, 1.7, 1.4, 1.5]


def test_what_has_too_many_kernels_does_not_race(make):
    small, large = "@triton.jit a", "@triton.jit b" * solve.SolverOptions.kernels
    solver = make(raced={small: 2.0, large: 1.0})
    assert solver.solve(TASK, ListProposer(small, large))["code"] == small
    assert solver.solve(TASK, ListProposer(large))["code"] == large


def test_where_all_that_raced_fail_the_rest_is_judged(make):
    small, large = "@triton.jit a", "@triton.jit b" * solve.SolverOptions.kernels
    solver = make(full=lambda code: timed(1.0) if code == large else verdict(None, Outcome.WRONG, "wrong"))
    assert solver.solve(TASK, ListProposer(small, large))["code"] == large


def test_too_many_kernels_for_the_time_are_not_tuned(make):
    assert make(tune_s=0.4).solve(TASK, ListProposer("tunable a"))["code"] == "tunable a"


def test_tuning_that_made_it_slower_is_left_out(make):
    solver = make(raced={"tunable a": 1.0, "tuned tunable a": 1.1})
    assert solver.solve(TASK, ListProposer("tunable a"))["code"] == "tunable a"


def test_where_the_fastest_is_wrong_the_next_one_is_judged(make):
    solver = make(full=lambda code: WRONG if code == "b" else timed(1.0), raced={"a": 3.0, "b": 1.0, "c": 5.0})
    assert solver.solve(TASK, ListProposer("a", "b", "c"))["code"] == "a"
    assert [code for code, _ in solver._full.asked] == ["b", "a"]


def test_without_a_race_they_are_judged_in_their_own_order(make):
    solver = make(full=lambda code: WRONG if code == "a" else timed(1.0))
    assert solver.solve(TASK, ListProposer("a", "b", "c"))["code"] == "b"
    assert [code for code, _ in solver._full.asked] == ["a", "b"]


def test_the_templates_own_kernel_is_judged_where_another_one_wins(make):
    class Engines:
        def propose(self, task, history):
            yield Candidate(task_id=task.id, code="a", proposer="compiler:templates")
            yield Candidate(task_id=task.id, code="b", proposer="compiler:inductor")

    solver = make(raced={"a": 3.0, "b": 1.0})
    row = solver.solve(TASK, Engines())
    assert (row["code"], solver._run.asked) == ("b", [("a", "beside")])
    assert [(one["proposer"], one["outcome"]) for one in row["attempts"] if one["step"] == "judge"] == [
        ("compiler:templates", "correct")
    ]


def test_tuned_code_the_judge_refuses_gives_way_to_what_it_was(make):
    solver = make(full=lambda code: WRONG if code.startswith("tuned") else timed(1.0))
    row = solver.solve(TASK, ListProposer("tunable a"))
    assert (row["status"], row["code"], row["proposer"]) == ("correct", "tunable a", "p")


def test_known_baselines_are_not_compiled_again(make):
    solver = make(known=Baselines(eager_ms=8.0, compile_ms=6.0), eager=lambda code: timed(1.0, eager_ms=4.0))
    row = solver.solve(TASK, ListProposer("a"))
    assert solver._full.asked == []
    # Four times eager now, and compile took three quarters of eager's time before.
    assert row["speedups"]["compile"]["ratio"] == pytest.approx(3.0)
    assert row["cached_baselines"] is True
    solver.options = replace(solver.options, fresh_baselines=True)
    row = solver.solve(TASK, ListProposer("a"))
    assert len(solver._full.asked) == 1
    assert "cached_baselines" not in row


def test_baselines_measured_in_this_run_are_kept_for_the_next(make):
    solver = make(full=lambda code: timed(1.0, eager_ms=4.0, compile_ms=3.0))
    row = solver.solve(TASK, ListProposer("a", "b"))
    assert "cached_baselines" not in row
    again = BaselineCache(solver.baselines.path, Machine(gpu="G"))
    assert again.get(TASK) == Baselines(4.0, 3.0)
    assert BaselineCache(solver.baselines.path, Machine(gpu="another")).get(TASK) is None


def test_a_failed_problem_uses_known_baselines(make):
    solver = make(full=lambda code: WRONG, eager=lambda code: WRONG, known=Baselines(8.0, None, "baseline compile: no"))
    row = solver.solve(TASK, ListProposer("a"))
    assert (row["status"], row["baselines_ms"]) == ("failed", {"eager": 8.0})
    assert solver._plain.asked == []


def test_without_a_correct_kernel_the_baselines_are_measured_with_the_reference_itself(make):
    solver = make(full=lambda code: WRONG)
    row = solver.solve(TASK, ListProposer("a"))
    assert (row["status"], row["reason"]) == ("failed", "wrong: values are off")
    assert row["baselines_ms"] == {"eager": 4.0, "compile": 2.0}
    assert solver._plain.asked == [("reference", "beside")]


def test_a_proposer_that_gives_up_is_the_reason(make):
    row = make().solve(TASK, ListProposer(error=ProposerError("aten::fft is not supported")))
    assert (row["status"], row["reason"]) == ("failed", "no candidate: aten::fft is not supported")
    row = make().solve(TASK, ListProposer("a", error=ValueError("a bug")))
    assert row["status"] == "correct"


def test_a_random_reference_is_left_out_and_another_bad_task_fails(make):
    def random(code):
        raise TaskError("task 1_x is random by itself: the same input gives different answers")

    assert make(run=random, full=random).solve(TASK, ListProposer("a"))["status"] == "excluded"

    def broken(code):
        raise TaskError("task 1_x: Model.forward raised TypeError")

    assert make(run=broken, full=broken).solve(TASK, ListProposer("a"))["status"] == "failed"


def test_a_task_the_compiler_finds_random_is_left_out(make):
    error = ProposerError("task x could not be captured: forward is random: it calls native_dropout")
    row = make().solve(TASK, ListProposer(error=error))
    assert (row["status"], "native_dropout" in row["reason"]) == ("excluded", True)


def test_a_correct_kernel_that_cannot_be_timed_stays_correct(make):
    def gone(code):
        raise JudgeError("the GPU fell off")

    row = make(full=gone).solve(TASK, ListProposer("a"))
    assert (row["status"], row["ms"]) == ("correct", None)
    assert row["notes"] == ["not timed: the GPU fell off"]


def test_a_broken_judge_is_no_verdict(make):
    def broken(code):
        raise JudgeError("cannot fork")

    with pytest.raises(JudgeError):
        make(run=broken, full=broken).solve(TASK, ListProposer("a"))


def test_where_memory_was_short_it_is_judged_again_alone(make):
    answers = [verdict(outcome=Outcome.RUNTIME_ERROR, message="out of memory: 1 GiB"), timed(1.0)]
    solver = make(full=lambda code: answers.pop(0))
    assert solver.solve(TASK, ListProposer("a"))["status"] == "correct"
    assert solver._full.asked == [("a", "beside"), ("a", "whole")]


def test_a_tuner_that_fails_leaves_the_candidate(make, monkeypatch):
    def tune(*args, **kwargs):
        raise OSError("no such device")

    solver = make()
    monkeypatch.setattr(solve, "tune", tune)
    row = solver.solve(TASK, ListProposer("tunable a"))
    assert (row["status"], row["code"]) == ("correct", "tunable a")
    assert row["tuning"] == ["tuning failed: OSError: no such device"]


def test_a_tuners_worker_stops_while_others_time_and_not_while_it_times_itself(monkeypatch):
    signals = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signals.append((group, number)))
    floor = Floor()
    gate = solve.Gate(floor)
    gate.started(77)
    with gate.shared(), floor.alone():
        assert (77, signal.SIGSTOP) in signals
    assert signals[-1] == (77, signal.SIGCONT)
    signals.clear()
    with gate.alone():
        assert [number for _, number in signals if number] == []
