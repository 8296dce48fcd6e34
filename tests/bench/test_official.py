"""KernelBench's own word, concluded from verdicts."""

from __future__ import annotations

import pytest

from autotriton.bench.official import official, undecided
from autotriton.types import Check, Outcome, Tier


@pytest.mark.parametrize(
    ("outcome", "called", "executed"),
    [
        (Outcome.CORRECT, True, True),
        (Outcome.SUSPECT, True, True),
        (Outcome.WRONG, True, False),
        (Outcome.RUNTIME_ERROR, False, False),
        (Outcome.COMPILE_ERROR, False, False),
        (Outcome.CRASHED, False, False),
        (Outcome.TIMED_OUT, False, False),
        (Outcome.NO_CODE, False, False),
        (Outcome.REJECTED, False, False),
    ],
)
def test_outcomes(make, outcome, called, executed):
    found = official(make(outcome))
    assert (found.called, found.executed) == (called, executed)


def test_refusals_for_how_the_work_is_done_are_judged_again_under_paper(make):
    assert [o for o in Outcome if undecided(make(o))] == [Outcome.REJECTED, Outcome.NO_WORK]


def wrong(make, **check):
    return official(make(Outcome.WRONG, checks=(Check(inputs="draw#1", passed=True), Check(passed=False, **check))))


def test_a_case_the_suite_never_draws_does_not_count_against_it(make):
    found = wrong(make, inputs="sign-mixed", max_error=3.0)
    assert found.executed
    assert "sign-mixed" in found.detail


def test_an_error_within_the_suites_tolerance_passes_there(make):
    assert wrong(make, inputs="draw#2", max_error=2e-3, reference_max_error=1e-6).executed
    assert not wrong(make, inputs="draw#2", max_error=9.9e-3, reference_max_error=2e-4).executed, "the two may add up"
    assert not wrong(make, inputs="draw#2", max_error=None, detail="has another shape").executed


def test_rules_alone_say_nothing_about_a_run(make):
    assert official(make(Outcome.CORRECT, tier=Tier.RULES)) is None
    assert official(make(Outcome.REJECTED, tier=Tier.RULES)) is not None
