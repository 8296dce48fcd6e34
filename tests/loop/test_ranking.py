"""Which of several verified candidates wins."""

from __future__ import annotations

import pytest

from autotriton.loop import best
from autotriton.types import Attempt, Kernel, Outcome, Target


@pytest.fixture
def attempt(task, fakes):
    def attempt(code, verdict):
        return Attempt(run_id="", task=task, candidate=fakes.candidate(code), verdict=verdict)

    return attempt


def test_nothing_accepted_has_no_best(attempt, fakes):
    assert best([attempt("a", fakes.verdict(Outcome.WRONG)), attempt("b", None)]) is None


def test_fastest_wins_where_it_was_timed(attempt, fakes):
    slow, fast = attempt("a", fakes.verdict(ms=2.0)), attempt("b", fakes.verdict(ms=1.0, launches=9, spills=9))
    assert best([slow, fast]) is fast


def test_timed_beats_untimed(attempt, fakes):
    untimed, timed = attempt("a", fakes.verdict()), attempt("b", fakes.verdict(ms=50.0))
    assert best([untimed, timed]) is timed


def test_without_times_spills_count_first_then_launches_then_order(attempt, fakes):
    spilling = attempt("a", fakes.verdict(spills=8, launches=1))
    many, few = attempt("b", fakes.verdict(launches=3)), attempt("c", fakes.verdict(launches=2))
    later = attempt("d", fakes.verdict(launches=2))
    assert best([spilling, many, few, later]) is few
    assert best([spilling, many]) is many


def test_a_later_verdict_on_the_same_code_takes_an_earlier_one_back(attempt, fakes):
    accepted, taken_back = attempt("a", fakes.verdict()), attempt("a", fakes.verdict(Outcome.SUSPECT))
    assert best([accepted, taken_back]) is None


def test_spills_of_cross_compiled_kernels_are_those_of_the_roomiest_target(attempt, fakes):
    def cross(name, *spills):
        targets = tuple(Target(arch=f"sm_{n}", spills=n) for n in spills)
        kernel = Kernel(name="k", launches=1, targets=targets)
        return attempt(name, fakes.verdict().model_copy(update={"kernels": (kernel,)}))

    everywhere, somewhere = cross("a", 4, 8), cross("b", 0, 64)
    assert best([everywhere, somewhere]) is somewhere
