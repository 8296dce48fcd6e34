"""Expressions that draw tensors like an example, or are the example."""

from __future__ import annotations

import pytest
import torch

from autotriton.live import values
from autotriton.tasks.live import LiveProgram, to_source

pytestmark = pytest.mark.interp


def evaluated(expression):
    """What `get_inputs` of a task with this expression gives."""
    program = LiveProgram("t", (), ("x",), ("return x",), (expression,))
    scope = {}
    exec(to_source(program), scope)
    return scope["get_inputs"]()[0]


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t(),
    "sliced": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(7, -1),
    "empty": lambda t: t[:0],
}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_drawn_tensors_have_the_examples_kind(layout, dtype):
    example = LAYOUTS[layout]((torch.randn(6, 8) * 3).to(dtype))
    drawn = evaluated(values.drawn(example))
    assert (drawn.dtype, drawn.shape, drawn.stride()) == (example.dtype, example.shape, example.stride())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exact_tensors_are_the_example(layout, dtype):
    example = LAYOUTS[layout]((torch.randn(6, 8) * 3).to(dtype))
    same = evaluated(values.exact(example))
    assert torch.equal(same, example)
    assert (same.dtype, same.stride()) == (example.dtype, example.stride())


def test_integers_stay_in_the_examples_range():
    drawn = evaluated(values.drawn(torch.tensor([[3, 9], [5, 4]]).repeat(50, 1)))
    assert set(drawn.unique().tolist()) == set(range(3, 10))


def test_a_mask_of_ones_is_drawn_with_zeros():
    assert set(evaluated(values.drawn(torch.ones(9, 9, dtype=torch.int64))).unique().tolist()) == {0, 1}


def test_offsets_keep_their_values():
    offsets = torch.tensor([0, 4, 9, 20])
    assert torch.equal(evaluated(values.drawn(offsets)), offsets)


def test_nonnegative_floats_stay_nonnegative():
    drawn = evaluated(values.drawn(torch.rand(50, 50) * 7 + 2))
    assert drawn.min() >= 2
    assert drawn.max() <= 9.1


def test_floats_keep_mean_and_spread():
    drawn = evaluated(values.drawn(torch.randn(200, 200) * 5 - 30))
    assert abs(drawn.mean() + 30) < 0.5
    assert abs(drawn.std() - 5) < 0.3


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_a_stand_in_of_zeros_or_ones_is_drawn(constant):
    assert evaluated(values.drawn(torch.full((30, 30), constant))).std() > 0.5


def test_few_values_stay_those_values():
    mask = torch.where(torch.rand(20, 20) < 0.5, 0.0, float("-inf"))
    assert set(evaluated(values.drawn(mask)).unique().tolist()) == {0.0, float("-inf")}


def test_another_leading_size_keeps_the_layout():
    layout = values.layout_of(torch.randn(6, 4).t(), 9)
    assert (layout.shape, layout.stride) == ((9, 6), (1, 9))


@pytest.mark.parametrize(
    "buffer",
    [
        torch.zeros(100),
        torch.full((3, 3), float("-inf")),
        torch.tensor(7),
        torch.tensor([True, False]),
        torch.arange(5.0),
    ],
)
def test_simple_buffers_are_written_out(buffer):
    made = eval(values.buffer(buffer), {"torch": torch})
    assert torch.equal(made, buffer)
    assert made.dtype == buffer.dtype


def test_large_integer_buffers_need_a_table():
    assert values.buffer(torch.randperm(100)) is None


def test_large_float_buffers_are_drawn():
    made = eval(values.buffer(torch.rand(1000) + 5), {"torch": torch})
    assert made.min() >= 5
    assert made.max() <= 6.1
