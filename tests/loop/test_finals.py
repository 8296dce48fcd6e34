"""Tuning and timing on a GPU. The device, the tuner and the judge are stand-ins: what is tested is who gets what."""

from __future__ import annotations

import pytest

from autotriton import tune as tune_package
from autotriton.errors import JudgeError, PrerequisiteError
from autotriton.loop import Budget, OptimizeOptions, optimize
from autotriton.store import Store
from autotriton.types import Outcome

CHOICES = {"kernel": ({"BLOCK": 64}, {"BLOCK": 128})}


@pytest.fixture
def tuner(monkeypatch):
    """Appends `!` to the code; remembers its calls."""

    class Tuner:
        def __init__(self):
            self.calls, self.ending = [], "!"

        def __call__(self, task, candidate, *, budget_s, cache=None, retune=False, progress=None):
            self.calls.append((candidate.code, budget_s, retune))
            progress("8 of 64 settings")
            if isinstance(self.ending, Exception):
                raise self.ending
            return candidate.model_copy(update={"code": candidate.code + self.ending})

    tuner = Tuner()
    monkeypatch.setattr(tune_package, "tune", tuner)
    return tuner


@pytest.fixture
def tunable(fakes):
    return lambda code: fakes.candidate(code, choices=CHOICES)


def on_gpu(fakes, **milliseconds):
    return fakes.court(times=True, default=fakes.verdict(), milliseconds=milliseconds)


def test_tuned_code_is_judged_again_and_wins_by_its_own_verdict(task, fakes, tuner, tunable):
    court = on_gpu(fakes, **{"a!": 1.0})
    result = optimize(task, [fakes.proposer([tunable("a")])], court=court)
    assert court.asked == [("look", ""), ("correct", "a"), ("rest", ""), ("timed", "a!")]
    winner = result.winner
    assert winner.candidate.code == "a!"
    assert winner.candidate.parent_id == tunable("a").id
    assert winner.candidate.proposer == "fake+tuned"
    assert winner.candidate.choices == CHOICES
    assert winner.verdict.timing.median_ms == 1.0


def test_fastest_of_all_wins(task, fakes, tuner, tunable):
    court = on_gpu(fakes, **{"a!": 3.0, "b": 2.0, "c!": 4.0})
    proposer = fakes.proposer([tunable("a"), fakes.candidate("b"), tunable("c")])
    assert optimize(task, [proposer], court=court).winner.candidate.code == "b"
    assert [code for code, _, _ in tuner.calls] == ["a", "c"]


def test_tuned_code_that_is_rejected_leaves_the_untuned_one(task, fakes, tuner, tunable):
    court = on_gpu(fakes, a=2.0)
    result = optimize(task, [fakes.proposer([tunable("a")])], court=court)
    assert court.codes("timed") == ["a!", "a"]
    assert result.winner.candidate.code == "a"


def test_code_that_fails_while_the_clock_runs_is_not_accepted_any_more(task, fakes, tuner):
    result = optimize(task, [fakes.proposer([fakes.candidate("a")])], court=on_gpu(fakes))
    assert [a.verdict.outcome for a in result.attempts] == [Outcome.CORRECT, Outcome.SUSPECT]
    assert result.winner is None


@pytest.mark.parametrize("error", [RuntimeError("device lost"), PrerequisiteError("no space")])
def test_tuner_that_fails_costs_the_tuning_only(task, fakes, tuner, tunable, error):
    tuner.ending = error
    result = optimize(task, [fakes.proposer([tunable("a")])], court=on_gpu(fakes, a=2.0))
    assert result.winner.candidate.code == "a"
    assert [f.who for f in result.failures] == ["tuner"]


def test_tuning_that_changes_nothing_is_timed_as_it_is(task, fakes, tuner, tunable):
    tuner.ending = ""
    result = optimize(task, [fakes.proposer([tunable("a")])], court=on_gpu(fakes, a=2.0))
    assert result.winner.candidate == tunable("a")


def test_timing_that_breaks_leaves_the_verified_kernel(task, fakes, tuner):
    class NoTimer(fakes.court):
        def timed(self, task, code, progress):
            raise PrerequisiteError("timing needs a CUDA device")

    court = NoTimer(times=True, default=fakes.verdict())
    result = optimize(task, [fakes.proposer([fakes.candidate("a")])], court=court)
    assert result.winner.verdict.timing is None
    assert result.failures[0].cause == "timing needs a CUDA device"


def test_judge_that_breaks_while_timing_leaves_the_others(task, fakes, tuner):
    class Breaking(fakes.court):
        def timed(self, task, code, progress):
            if code == "a":
                raise JudgeError("worker died")
            return super().timed(task, code, progress)

    court = Breaking(times=True, default=fakes.verdict(), milliseconds={"b": 1.0})
    result = optimize(task, [fakes.proposer([fakes.candidate("a"), fakes.candidate("b")])], court=court)
    assert result.winner.candidate.code == "b"


def test_of_too_many_only_the_roughly_fastest_are_tuned(task, fakes, tuner, tunable):
    court = on_gpu(fakes, **{"a": 4.0, "b": 1.0, "c": 3.0, "d": 2.0, "b!": 0.9, "d!": 0.8})
    proposer = fakes.proposer([tunable(code) for code in "abcd"])
    result = optimize(task, [proposer], OptimizeOptions(finalists=2), court=court)
    assert court.codes("roughly") == ["a", "b", "c", "d"]
    assert court.codes("timed") == ["b!", "d!"]
    assert result.winner.candidate.code == "d!"
    assert len(result.attempts) == 6, "a rough time is no verdict"


def test_finalists_share_the_time_for_tuning(task, fakes, tuner, tunable):
    court = on_gpu(fakes, **{"a!": 1.0, "b!": 1.0})
    proposer = fakes.proposer([tunable("a"), tunable("b")])
    optimize(task, [proposer], OptimizeOptions(tune_s=40, retune=True), court=court)
    assert tuner.calls == [("a", 20.0, True), ("b", 20.0, True)]


def test_seconds_bound_the_tuning_too(task, fakes, tuner, tunable):
    court = on_gpu(fakes, **{"a!": 1.0})
    optimize(task, [fakes.proposer([tunable("a")])], OptimizeOptions(budget=Budget(seconds=10)), court=court)
    ((_, seconds, _),) = tuner.calls
    assert 9 < seconds <= 10


def test_one_finalist_is_timed_even_when_time_is_up(task, fakes, tuner, tunable):
    court = on_gpu(fakes, a=1.0, b=1.0)
    options = OptimizeOptions(budget=Budget(seconds=1e-9))
    result = optimize(task, [fakes.proposer([tunable("a"), tunable("b")])], options, court=court)
    assert tuner.calls == []
    assert court.codes("timed") == ["a"]
    assert result.winner.verdict.timing is not None


def test_resumed_run_times_only_what_was_not_timed(task, fakes, tuner, tunable, tmp_path):
    proposed = [tunable("a"), tunable("b")]
    with Store(tmp_path).create("optimize", {}) as run:

        class Killed(BaseException):
            pass

        class Fragile(fakes.court):
            def timed(self, task, code, progress):
                if code == "b!":
                    raise Killed
                return super().timed(task, code, progress)

        fragile = Fragile(times=True, default=fakes.verdict(), milliseconds={"a!": 2.0})
        with pytest.raises(Killed):
            optimize(task, [fakes.proposer(proposed)], run=run, court=fragile)
        court = on_gpu(fakes, **{"b!": 1.0})
        result = optimize(task, [fakes.proposer(proposed)], run=run, court=court)
    assert court.codes("correct") == []
    assert court.codes("timed") == ["b!"]
    assert result.winner.candidate.code == "b!"


def test_resumed_run_does_not_judge_rejected_tuned_code_again(task, fakes, tuner, tunable, tmp_path):
    with Store(tmp_path).create("optimize", {}) as run:
        optimize(task, [fakes.proposer([tunable("a")])], run=run, court=on_gpu(fakes))
        court = on_gpu(fakes, a=1.0)
        optimize(task, [fakes.proposer([tunable("a")])], run=run, court=court)
    assert court.codes("timed") == []
