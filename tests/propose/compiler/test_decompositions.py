"""Operators in the forms Inductor has kernels for give what torch gives."""

import pytest
import torch
import torch.nn.functional as F

from autotriton.propose.compiler.inductor.decompositions import DECOMPOSITIONS, _parts_of_k

pytestmark = pytest.mark.interp

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "counted", "divisor"),
    [
        (3, 2, 1, True, None),
        (3, 2, 1, False, None),
        (2, None, 0, True, None),
        ((3, 2, 1), (1, 2, 1), (1, 0, 0), False, None),
        (3, 1, 1, False, 5),
    ],
)
def test_pooling_over_three_dimensions_is_pooling_over_two_and_one(kernel, stride, padding, counted, divisor):
    x = torch.randn(2, 3, 8, 7, 9)
    expected = F.avg_pool3d(x, kernel, stride, padding, count_include_pad=counted, divisor_override=divisor)
    three = [(v,) if isinstance(v, int) else v for v in (kernel, stride or (), padding)]
    found = DECOMPOSITIONS[aten.avg_pool3d.default](x, *three, False, counted, divisor)
    torch.testing.assert_close(found, expected)


def test_pooling_that_rounds_up_is_left_alone():
    x = torch.randn(1, 1, 5, 5, 5)
    assert DECOMPOSITIONS[aten.avg_pool3d.default](x, (2,), (2,), (0,), True) is NotImplemented


@pytest.mark.parametrize(("m", "k", "n"), [(1, 40, 7), (7, 40, 1), (1, 40, 1), (8, 4096, 8)])
def test_products_with_a_vector_and_over_a_long_k(m, k, n):
    a, b = torch.randn(m, k), torch.randn(k, n)
    torch.testing.assert_close(DECOMPOSITIONS[aten.mm.default](a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_an_ordinary_product_is_left_to_its_template():
    assert DECOMPOSITIONS[aten.mm.default](torch.randn(8, 9), torch.randn(9, 8)) is NotImplemented


def test_parts_of_k_are_equal_and_not_too_short():
    assert _parts_of_k(256, 256, 524_288) == 32
    assert _parts_of_k(64, 64, 1536) == 2
    assert _parts_of_k(4096, 4096, 4096) == 1
