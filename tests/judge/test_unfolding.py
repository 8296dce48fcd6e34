"""What rounding costs inside one operator: honest kernels that round other things than the reference are accepted.

Kernels are written in torch here, step by step as a GPU takes them; the same steps on coarser operands are rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from autotriton.judge import cases
from autotriton.judge.compare import compare_leaf
from autotriton.judge.measure import UNMEASURED
from autotriton.judge.oracle import expect
from autotriton.judge.program import Inputs, Program
from autotriton.judge.tolerance import bounds
from autotriton.judge.unfolding import strayed, without_fused_attention
from autotriton.types import Task

pytestmark = pytest.mark.interp
torch.set_num_threads(1)


def function(body: str, inputs: str) -> Program:
    head = "import torch\nimport torch.nn.functional as F\n"
    source = f"{head}def f(*a):\n    return {body}\ndef get_inputs():\n    return {inputs}\n"
    return Program(Task(id="t", entry="f", source=source))


def case_of(program: Program, name: str, seed: int = 0) -> Inputs:
    inputs = cases.make(program, cases.CaseSpec(name, cases.derive(seed, 4), name))
    assert inputs is not None
    return inputs


def problem(program: Program, inputs: Inputs, kernel: Callable[..., Tensor]) -> str:
    answer = expect(program, program.build(0), inputs, 7).outputs[0]
    return compare_leaf(answer, kernel(*inputs.args)).problem


def exactly(x: Tensor) -> Tensor:
    return x


def as_tf32(x: Tensor) -> Tensor:
    """Ten bits of mantissa, to nearest."""
    return x.view(torch.int32).add(1 << 12).bitwise_and(~0x1FFF).view(torch.float32)


def as_bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def flash(q: Tensor, k: Tensor, v: Tensor, operand: Callable[[Tensor], Tensor] = exactly, skip: int = -1) -> Tensor:
    """Causal attention in blocks of 64 keys: scale and log2(e) in one factor on q, exp2, a running maximum."""
    length, width = q.shape[-2:]
    q = operand(q * (width**-0.5 * 1.4426950408889634))
    total, top, acc = torch.zeros(q.shape[:-1]), torch.full(q.shape[:-1], float("-inf")), torch.zeros_like(q)
    for start in range(0, length, 64):
        if start == skip:
            continue
        block = slice(start, start + 64)
        hidden = torch.arange(length)[block] > torch.arange(length)[:, None]
        logits = (q @ operand(k[..., block, :]).mT).masked_fill(hidden, float("-inf"))
        above = torch.maximum(top, logits.amax(-1))
        p, shrink = torch.exp2(logits - above[..., None]), torch.exp2(top - above)
        total, top = total * shrink + p.sum(-1), above
        acc = acc * shrink[..., None] + operand(p) @ operand(v[..., block, :])
    return acc / total[..., None]


ATTENTION = function(
    "F.scaled_dot_product_attention(*a, is_causal=True)", "[torch.randn(2, 8, 512, 64) for _ in range(3)]"
)


# Rows torn between two spiky logits: at these seeds noise of equal size on both once hid what they can do.
@pytest.mark.parametrize("seed", [0, 1])
def test_flash_attention_with_its_own_rounding_is_accepted(seed: int) -> None:
    assert problem(ATTENTION, case_of(ATTENTION, "spikes", seed), flash) == ""


@pytest.mark.parametrize("name", ["draw", "spikes"])
@pytest.mark.parametrize("operand", [as_tf32, as_bf16])
def test_flash_attention_on_coarser_operands_is_rejected(name: str, operand: Callable[[Tensor], Tensor]) -> None:
    assert problem(ATTENTION, case_of(ATTENTION, name), lambda *a: flash(*a, operand=operand)) != ""


def test_flash_attention_without_one_block_is_rejected() -> None:
    assert problem(ATTENTION, case_of(ATTENTION, "spikes"), lambda *a: flash(*a, skip=64)) != ""


def product(a: Tensor, b: Tensor) -> Tensor:
    """One term after the other, as one thread adds them."""
    acc = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        acc = acc + a[:, k, None] * b[k]
    return acc


def rows_added(x: Tensor) -> Tensor:
    acc = torch.zeros(x.shape[1])
    for row in x:
        acc = acc + row
    return acc


def halves_added(x: Tensor) -> Tensor:
    """A tree over neighbours: the last two parts of a ramp are 4 million each, and cancel."""
    return x.view(2, -1).sum(1).sum()


SUMS = {
    "columns": (function("a[0].sum(0)", "[torch.randn(4096, 256)]"), rows_added),
    "means": (function("a[0].mean(0)", "[torch.randn(4096, 256)]"), lambda x: rows_added(x) / 4096),
    "product": (function("a[0] @ a[1]", "[torch.randn(48, 4096), torch.randn(4096, 80)]"), product),
    "everything": (function("a[0].sum()", "[torch.randn(1 << 22)]"), halves_added),
}


@pytest.mark.parametrize("case", ["draw", "ramp", "spikes"])
@pytest.mark.parametrize("name", sorted(SUMS))
def test_a_plain_loop_is_accepted_in_any_order_of_terms(name: str, case: str) -> None:
    program, kernel = SUMS[name]
    assert problem(program, case_of(program, case), kernel) == ""


@pytest.mark.parametrize("name", ["columns", "means", "product"])
def test_a_plain_loop_on_coarser_operands_is_rejected(name: str) -> None:
    program, kernel = SUMS[name]
    for case in ("draw", "sign-mixed"):
        assert problem(program, case_of(program, case), lambda *a: kernel(*map(as_tf32, a))) != ""


@pytest.mark.parametrize("name", sorted(SUMS))
def test_terms_in_no_order_allow_no_more_for_it(name: str) -> None:
    program, _ = SUMS[name]
    for inputs in (program.draw(1), case_of(program, "sign-mixed"), program.draw(2).map(Tensor.abs)):
        answer = expect(program, program.build(0), inputs, 7).outputs[0]
        assert answer.steps.rms > 0
        assert bounds(answer) == bounds(replace(answer, steps=UNMEASURED))


def test_strayed_is_how_far_a_loop_is_off() -> None:
    terms = torch.linspace(-4.0, 4.0, 4096 * 8).view(4096, 8).T
    off, acc = torch.zeros(8, dtype=torch.float64), torch.zeros(8)
    for count in range(1, 4097):
        acc = acc + terms[:, count - 1]
        off = torch.maximum(off, (acc.double() - terms[:, :count].double().sum(1)).abs())
    assert torch.allclose(strayed(terms.double()), off, rtol=0.1)


def test_whole_numbers_are_added_without_loss() -> None:
    assert strayed(torch.randint(-99, 99, (3, 5000)).double()).tolist() == [0.0, 0.0, 0.0]
    assert strayed(torch.tensor([[float("inf"), 1.0]], dtype=torch.float64)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("F.scaled_dot_product_attention(*a)", "[torch.randn(2, 64, 64).double() for _ in range(3)]"),
        ("a[0].sum(0)", "[torch.randn(4096, 64).double()]"),
        ("a[0] @ a[1]", "[torch.randn(64, 512).double(), torch.randn(512, 64).double()]"),
    ],
)
def test_a_reference_in_fp64_rounds_nothing_to_fp32(body: str, inputs: str) -> None:
    program = function(body, inputs)
    answer = expect(program, program.build(0), program.draw(1), 7).outputs[0]
    assert answer.steps.rms < 2**-45 * answer.size.rms


def test_every_dimension_of_a_sum_is_understood() -> None:
    for body in (
        "a[0].sum()",
        "a[0].mean((0, -1))",
        "a[0].sum(1, keepdim=True)",
        "a[0].mean(dim=-2)",
        "a[0][0, 0, 0].sum()",
    ):
        program = function(body, "[torch.randn(8, 9, 70)]")
        answer = expect(program, program.build(0), program.draw(1), 7).outputs[0]
        assert 0 < answer.steps.max < 1e-4, body


def test_fused_attention_is_back_afterwards() -> None:
    with without_fused_attention():
        assert not torch.backends.mha.get_fastpath_enabled()
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
