"""Numbers as people read them."""

from __future__ import annotations

import pytest

from autotriton.report import numbers
from autotriton.types import Check, Kernel, Speedup


def check(name, error, allowed, passed=True):
    return Check(inputs=name, passed=passed, max_error=error, allowed_error=allowed)


def test_worst_case_is_the_one_closest_to_its_bound(make_verdict):
    found = make_verdict(checks=(check("large", 1e-3, 1.0), check("tight", 9e-7, 1e-6), Check(inputs="x", passed=True)))
    assert numbers.worst_check(found).inputs == "tight"


def test_failed_case_is_the_worst_whatever_its_numbers(make_verdict):
    found = make_verdict(checks=(check("tight", 1e-6, 1e-6), check("failed", 0.0, 1.0, passed=False)))
    assert numbers.worst_check(found).inputs == "failed"


def test_nothing_compared_has_no_worst_case(make_verdict):
    assert numbers.worst_check(make_verdict()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.error(1.234e-7), "1.23e-07"),
        (numbers.count(0), "0"),
        (numbers.share(0.456), "46%"),
        (numbers.milliseconds(0.123456), "0.1235"),
        (numbers.ratio(1.5), "1.50x"),
        (numbers.interval(Speedup(ratio=1.5, low=1.4, high=1.6)), "1.50x (1.40 to 1.60)"),
        (numbers.size(512), "512 B"),
        (numbers.size(3 << 30), "3.0 GiB"),
    ],
)
def test_numbers_have_units_and_few_digits(text, expected):
    assert text == expected


def test_what_was_not_measured_is_a_dash(make_verdict):
    functions = (numbers.error, numbers.count, numbers.share, numbers.milliseconds, numbers.ratio, numbers.size)
    assert {function(None) for function in (*functions, numbers.interval)} == {"-"}
    assert numbers.launches(make_verdict()) is None


def test_launches_are_summed(make_verdict):
    assert numbers.launches(make_verdict(kernels=(Kernel(name="a", launches=2), Kernel(name="b", launches=3)))) == 5
