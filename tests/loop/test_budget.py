"""Budgets: what can be written, and when they are spent."""

from __future__ import annotations

import math

import pytest

from autotriton.errors import UsageError
from autotriton.loop.budget import Allowance, Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("8", Budget(candidates=8)),
        (" 12 ", Budget(candidates=12)),
        ("60s", Budget(seconds=60)),
        ("2m", Budget(seconds=120)),
        ("1.5M", Budget(seconds=90)),
        ("1h", Budget(seconds=3600)),
        ("0.5s", Budget(seconds=0.5)),
    ],
)
def test_number_is_candidates_and_a_unit_makes_it_time(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    "text", ["", "x", "-3", "1.5", "60 s", "1d", "s", "1e3", "nan", "inf", "8,5s", "0", "0s", "0.0m"]
)
def test_what_is_no_budget_is_one_clear_line(text):
    with pytest.raises(UsageError, match="--budget") as error:
        parse_budget(text)
    assert "60s" in error.value.hint
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fields", [{}, {"candidates": 1, "seconds": 1.0}, {"candidates": 0}, {"seconds": math.nan}])
def test_budget_is_one_positive_number(fields):
    with pytest.raises(UsageError):
        Budget(**fields)


@pytest.mark.parametrize("text", ["8", "90s"])
def test_budget_is_shown_as_it_is_written(text):
    assert str(parse_budget(text)) == text


def test_candidates_are_counted_whatever_the_time():
    allowance = Allowance(Budget(candidates=2), now=lambda: 1e9)
    assert allowance.seconds_left() == math.inf
    assert allowance.may_judge(1, found=True, tuning=True)
    assert not allowance.may_judge(2, found=False, tuning=False)


def test_time_runs_out():
    now = [100.0]
    allowance = Allowance(Budget(seconds=60), now=lambda: now[0])
    now[0] += 59
    assert allowance.seconds_left() == 1
    assert allowance.may_judge(50, found=False, tuning=True)
    now[0] += 1
    assert not allowance.may_judge(50, found=False, tuning=True)


def test_first_candidate_is_judged_however_short_the_time():
    now = [0.0]
    allowance = Allowance(Budget(seconds=0.1), now=lambda: now[0])
    now[0] = 5
    assert allowance.may_judge(0, found=False, tuning=False)


def test_tuner_is_left_half_of_the_time_once_something_is_found():
    now = [0.0]
    allowance = Allowance(Budget(seconds=60), now=lambda: now[0])
    now[0] = 31
    assert not allowance.may_judge(1, found=True, tuning=True)
    assert allowance.may_judge(1, found=True, tuning=False)
    assert allowance.may_judge(1, found=False, tuning=True)
