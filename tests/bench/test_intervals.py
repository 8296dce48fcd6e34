"""Small statistics against numbers worked by hand or known from textbooks."""

from __future__ import annotations

import math

import pytest

from autotriton.bench.intervals import bootstrap_mean, pass_at_k, quantile, sign_flip_test, sign_test, wilson


def test_wilson_of_five_in_ten():
    # z^2 = 3.8415: centre (.5 + .19207) / 1.38415 = .5, half 1.95996 / 1.38415 * sqrt(.025 + .0096036) = .26341
    found = wilson(5, 10)
    assert (found.low, found.high) == pytest.approx((0.23659, 0.76341), abs=1e-5)


def test_wilson_of_none_is_not_a_point():
    # High end: z^2 / (n + z^2) = 3.8415 / 103.8415.
    found = wilson(0, 100)
    assert (found.low, found.high) == (0.0, pytest.approx(0.036994, abs=1e-6))


def test_wilson_of_all_mirrors_none():
    assert (wilson(100, 100).low, wilson(100, 100).high) == pytest.approx((1 - wilson(0, 100).high, 1.0))


def test_wilson_of_nothing_is_everything():
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("samples", "correct", "k", "expected"),
    [
        (1, 1, 1, 1.0),
        (10, 3, 1, 0.3),
        (10, 3, 10, 1.0),
        (10, 0, 10, 0.0),
        (4, 2, 2, 5 / 6),  # of the six pairs only the one of both failures misses
        (5, 1, 3, 0.6),  # C(4,3) / C(5,3) = 4 / 10 miss
        (200, 1, 100, 0.5),
    ],
)
def test_pass_at_k(samples, correct, k, expected):
    assert pass_at_k(samples, correct, k) == pytest.approx(expected)


@pytest.mark.parametrize(("samples", "correct", "k"), [(3, 1, 4), (3, 4, 1), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k_is_undefined_beyond_the_samples(samples, correct, k):
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(samples, correct, k)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 1, 20 / 512), (3, 3, 1.0), (10, 2, 158 / 4096)],
)
def test_sign_test_is_the_exact_binomial(wins, losses, p):
    assert sign_test(wins, losses) == pytest.approx(p)
    assert sign_test(losses, wins) == pytest.approx(p)


def test_sign_flips_are_enumerated_when_few():
    # |1 + 2 + 3| = 6 is reached by two of the eight sign patterns.
    assert sign_flip_test([1.0, 2.0, 3.0]) == 0.25
    assert sign_flip_test([1.0, 2.0, -3.0]) == 1.0
    assert sign_flip_test([0.0, 0.0]) == 1.0


def test_sign_flips_are_sampled_when_many():
    clear, none = [0.5 + i / 100 for i in range(40)], [(-1) ** i * (1 + i // 2) for i in range(40)]
    assert sign_flip_test(clear) == pytest.approx(1 / 10_001)
    assert sign_flip_test(none) == 1.0
    assert sign_flip_test(clear[:20] + [-0.3] * 20) == sign_flip_test(clear[:20] + [-0.3] * 20)


def test_quantiles_interpolate():
    assert [quantile([1.0, 2.0, 4.0], share) for share in (0, 0.25, 0.5, 1)] == [1.0, 1.5, 2.0, 4.0]


def test_bootstrap_of_equal_values_is_a_point():
    found = bootstrap_mean([2.0] * 7)
    assert (found.low, found.high) == (2.0, 2.0)


def test_bootstrap_is_as_wide_as_theory_says():
    # 200 values, half 0 and half 1: the mean's standard error is .5 / sqrt(200) = .03536.
    found = bootstrap_mean([0.0, 1.0] * 100)
    assert found.low == pytest.approx(0.5 - 1.96 * 0.03536, abs=0.008)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.03536, abs=0.008)
    assert found == bootstrap_mean([0.0, 1.0] * 100)
    assert math.isfinite(found.low)


def test_sign_test_of_thousands_of_tasks():
    assert sign_test(1500, 1500) == 1.0
    assert sign_test(0, 1100) == pytest.approx(0.0, abs=1e-300)
    assert sign_test(1000, 909) == pytest.approx(0.0394, abs=1e-3)  # 90 / sqrt(1909) is 2.06 standard deviations
