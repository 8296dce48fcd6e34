"""Candidates side by side in one process, for real, in the interpreter."""

from __future__ import annotations

import pytest

from autotriton.tune import race

pytestmark = pytest.mark.interp


def test_each_has_a_time_and_what_fails_or_dies_costs_only_itself(task, make_candidate, code):
    def changed(mode):
        return make_candidate(code=code.replace('"MODE": "honest"', f'"MODE": "{mode}"'))

    given = [
        make_candidate(),
        changed("dies"),
        changed("raises"),
        make_candidate(code="not python ("),
        make_candidate(),
    ]
    found = race(task, given, budget_s=120.0, device="cpu", jobs=1)
    assert [ms is not None and ms > 0 for ms in found] == [True, False, False, False, True]


def test_smaller_blocks_are_slower_in_the_interpreter(task, make_candidate, code):
    large = make_candidate(code=code.replace('"BLOCK": 16', '"BLOCK": 512'))
    slow, fast = race(task, [make_candidate(), large], budget_s=120.0, device="cpu", jobs=1)
    assert slow > fast


def test_what_has_no_time_left_has_no_result(task, make_candidate):
    assert race(task, [make_candidate()], budget_s=0.0, device="cpu") == [None]
