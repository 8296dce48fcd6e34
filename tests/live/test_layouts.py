"""Strides with another leading size, worked out by hand."""

from __future__ import annotations

import pytest

from autotriton.live import layouts


@pytest.mark.parametrize(
    ("shape", "stride", "leading", "expected"),
    [
        ((4, 6), (6, 1), 9, (6, 1)),
        ((4, 6), (1, 4), 9, (1, 9)),
        ((4, 3, 5), (5, 20, 1), 2, (5, 10, 1)),
        ((2, 3, 8, 8), (192, 1, 24, 3), 7, (192, 1, 24, 3)),
        ((4, 6), (12, 2), 9, (12, 2)),
        ((4, 6), (0, 1), 9, (0, 1)),
        ((4, 6), (1, 8), 9, None),
    ],
)
def test_strides_with_another_leading_size(shape, stride, leading, expected):
    assert layouts.resized(shape, stride, leading) == expected


def test_axes_of_one_element_have_any_stride():
    assert layouts.same((4, 1, 6), (6, 77, 1), (6, 6, 1))
    assert layouts.is_contiguous((4, 1, 6), (6, 77, 1))


def test_dense_is_contiguous_in_some_order():
    assert layouts.is_dense((2, 3, 4), (1, 8, 2))
    assert not layouts.is_dense((2, 3), (4, 1))
    assert not layouts.is_dense((2, 3), (0, 1))


def test_span_of_a_slice():
    assert layouts.span((4, 3), (10, 2)) == 35
    assert layouts.span((0, 3), (3, 1)) == 0
