"""Strides: the program's own are demanded, a backend's choice is not, and shared memory never passes."""

from __future__ import annotations

import pytest
import torch

from autotriton.judge.compare import compare
from autotriton.judge.layouts import alternatives, contiguous, is_dense, layout_problem, overlaps
from autotriton.judge.oracle import expect
from autotriton.judge.program import Program
from autotriton.types import Task

pytestmark = pytest.mark.interp


def program(body: str, inputs: str) -> Program:
    head = "import torch\nimport torch.nn.functional as F\n"
    source = f"{head}def f(*a):\n    {body}\ndef get_inputs():\n    return {inputs}\n"
    return Program(Task(id="t", entry="f", source=source))


@pytest.mark.parametrize(
    ("shape", "stride", "dense", "shared"),
    [
        ((2, 3), (3, 1), True, False),
        ((2, 3), (1, 2), True, False),
        ((2, 3), (4, 1), False, False),
        ((2, 3), (0, 1), False, True),
        ((2, 3), (2, 1), False, True),
        ((2, 1, 3), (3, 77, 1), True, False),
        ((0, 3), (0, 0), True, False),
        ((4,), (0,), False, True),
        ((), (), True, False),
    ],
)
def test_density_and_overlap_by_hand(shape, stride, dense, shared):
    assert (is_dense(shape, stride), overlaps(shape, stride)) == (dense, shared)


def test_contiguous_strides():
    for shape in ((2, 3, 4), (5,), (), (2, 0, 3)):
        assert contiguous(shape) == torch.empty(shape).stride()


@pytest.mark.parametrize("body", ["return a[0].t()", "return a[0] + 1", "return (a[0] * 2).t()"])
def test_strides_the_program_fixes_are_demanded(body):
    found = expect(one := program(body, "[torch.randn(4, 6)]"), one.build(0), one.draw(0), 0)
    value = found.outputs[0].value
    assert found.outputs[0].layouts == ()
    other = torch.empty(value.shape[::-1]).t().copy_(value) if value.is_contiguous() else value.contiguous()
    assert "memory layout" in compare(found, [other], "x").detail
    assert compare(found, [value.clone()], "x").passed


def test_strides_a_backend_chose_are_not_demanded():
    channels = "[torch.randn(2, 8, 10, 10).to(memory_format=torch.channels_last), torch.randn(16, 8, 3, 3)]"
    convolution = program("return F.conv2d(*a)", channels)
    found = expect(convolution, convolution.build(0), convolution.draw(0), 0)
    value = found.outputs[0].value
    assert found.outputs[0].layouts
    assert compare(found, [value], "x").passed
    assert compare(found, [value.contiguous()], "x").passed
    strange = torch.empty(value.shape[::-1]).permute(3, 2, 1, 0).copy_(value)
    assert "memory layout" in compare(found, [strange], "x").detail


@pytest.mark.parametrize("inputs", ["torch.randn(2, 4, 64, 32)", "torch.randn(2, 64, 4, 32).transpose(1, 2)"])
def test_attention_may_have_its_heads_before_or_after_the_sequence(inputs):
    attention = program("return F.scaled_dot_product_attention(*a)", f"[{inputs} for _ in range(3)]")
    found = expect(attention, attention.build(0), attention.draw(0), 0)
    value = found.outputs[0].value
    assert compare(found, [value.contiguous()], "x").passed
    assert compare(found, [value.transpose(1, 2).contiguous().transpose(1, 2)], "x").passed
    strange = torch.empty(value.shape[::-1]).permute(3, 2, 1, 0).copy_(value)
    assert "memory layout" in compare(found, [strange], "x").detail


def test_a_chosen_layout_may_be_plain_or_the_backends_and_nothing_else():
    value = torch.randn(2, 3, 4).transpose(0, 1)
    others = (contiguous(value.shape),)
    assert layout_problem(value, value, others) == ""
    assert layout_problem(value, value.contiguous(), others) == ""
    assert "strides" in layout_problem(value, torch.randn(4, 2, 3).permute(2, 1, 0), others)
    assert "strides" in layout_problem(value, torch.randn(3, 1, 4).expand(3, 2, 4), others)


def test_where_the_reference_has_gaps_a_plain_tensor_will_do_but_no_shared_memory():
    padded = program("return F.pad(a[0], (0, 3))[:, :6]", "[torch.randn(4, 6)]")
    found = expect(padded, padded.build(0), padded.draw(0), 0)
    assert compare(found, [found.outputs[0].value.contiguous()], "x").passed
    value = torch.randn(4, 9)[:, :6]
    assert "share memory" in layout_problem(value, torch.randn(6).expand(4, 6), ())
    assert "share memory" in layout_problem(value, torch.randn(64).as_strided((4, 6), (2, 1)), ())


def test_a_reference_that_expands_may_be_answered_so_or_plainly():
    value = torch.randn(6).expand(4, 6)
    assert layout_problem(value, value, ()) == ""
    assert layout_problem(value, value.contiguous(), ()) == ""
    assert "share memory" in layout_problem(value, torch.randn(4, 1).expand(4, 6), ())


def test_a_program_that_needs_values_keeps_its_own_strides():
    one = program("return a[0] * a[0].sum().item()", "[torch.randn(4)]")
    assert alternatives(one, 0, torch.randn(4)) == ()
