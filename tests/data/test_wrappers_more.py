"""Convolutions, pools, norms of channels, reductions of their own kind, whole numbers: true to torch's signatures."""

from __future__ import annotations

import ast
import re
from functools import cache
from random import Random

import pytest

from autotriton.data.wrappers.base import signature
from autotriton.data.wrappers.generating import Wrapper, wrapper
from autotriton.data.wrappers.wording import described
from autotriton.judge import Judge
from autotriton.judge.options import JudgeOptions
from autotriton.types import Tier

_FAMILIES = (
    "batch_norm",
    "group_norm",
    "position",
    "extreme",
    "spread",
    "twice",
    "predicate",
    "bitwise",
    "division",
    "convolution",
    "pool",
)
_CONV = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1"


@cache
def _made(family: str, count: int = 12) -> list[Wrapper]:
    return [wrapper(21, number, family=family) for number in range(count)]


def _first(family: str, pattern: str) -> Wrapper:
    """The first row whose task has the pattern."""
    found = (wrapper(22, number, family=family) for number in range(500))
    return next(made for made in found if re.search(pattern, made.task.source))


def _arguments(text: str, name: str) -> str:
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    return ast.unparse(found[0].args)


@pytest.mark.parametrize("family", _FAMILIES)
def test_signature_description_and_answer_agree(family):
    for made in _made(family):
        name = made.plan.name
        assert _arguments(made.task.source, name) == _arguments(made.code, name)
        prompt, style = made.question(Random(1))
        said = f"{name}({signature(made.plan.parameters)})"
        assert style == "module" or said in prompt
        for parameter in made.plan.parameters:
            assert style == "module" or f"    {parameter.name} ({parameter.kind}): " in prompt


@pytest.mark.parametrize("family", _FAMILIES)
def test_answers_have_the_same_imports_and_math_where_they_use_it(family):
    for made in _made(family):
        head, _, body = made.code.partition("@triton.jit")
        assert "import triton.language as tl\nfrom triton.language.extra import libdevice\n" in head
        assert ("import math" in head) == ("math." in body)
        assert "import" not in body


def test_a_plain_convolution_has_torchs_signature_and_takes_numbers_and_tuples():
    made = [one for one in _made("convolution", 80) if one.plan.name == "conv2d"]
    assert made
    for one in made:
        assert signature(one.plan.parameters).removesuffix(", *, out=None") == _CONV
        assert "stride_h, stride_w = (stride, stride) if isinstance(stride, int) else stride" in one.code
    given = {parameter.given for one in made for parameter in one.plan.parameters if parameter.name == "padding"}
    assert any(text.startswith("(") for text in given)
    assert any(text.isdigit() for text in given)


def test_a_step_of_none_is_the_window():
    made = _first("pool", r"max_pool2d\(input, kernel_size, stride=None")
    assert "stride = kernel_size if stride is None else stride" in made.code


def test_values_with_positions_are_two_tensors():
    made = _first("extreme", "torch.max")
    assert ") -> (Tensor, Tensor)" in described(made.plan, Random(1))
    assert made.code.rstrip().endswith("return values, indices")


def test_whole_numbers_become_float32_in_functions_that_need_fractions():
    made = _first("unary", r"def sqrt\(")
    assert "dtype = x.dtype if x.is_floating_point() else torch.float32" in made.code
    assert "is_floating_point" not in _first("unary", r"def relu\(").code


@pytest.fixture(scope="module")
def judge():
    options = JudgeOptions(tier=Tier.INTERPRET, device="cpu", cases=3, late_calls_s=0.0, allow_degenerate=True)
    with Judge(options) as judge:
        yield judge


@pytest.mark.interp
@pytest.mark.parametrize("family", _FAMILIES)
def test_an_answer_of_every_new_family_is_accepted(judge, family):
    made = wrapper(23, 2, family=family)
    verdict = judge.judge(made.task, made.code)
    assert verdict.accepted, f"{made.code}\n{verdict.message}"
    assert not verdict.torch_ops


@pytest.mark.interp
def test_batch_norm_in_training_updates_the_running_statistics(judge):
    made = _first("batch_norm", r'None, None\], \{"training": True')
    channels = re.findall(r"torch\.randn\(\d+, (\d+)", made.task.source)[0]
    given = f"torch.randn({channels}), torch.rand({channels}) + 0.1"
    source = made.task.source.replace("None, None]", f"{given}]")
    task = made.task.model_copy(update={"source": source})
    assert judge.judge(task, made.code).accepted
    kept = made.code.replace("HAS_RUNNING=running_mean is not None", "HAS_RUNNING=False")
    assert kept != made.code
    assert not judge.judge(task, kept).accepted


@pytest.mark.interp
def test_an_activation_left_out_is_wrong(judge):
    made = _first("convolution", r"y = torch.sigmoid\(y\)\n    return y")
    plain = re.sub(r"\n    (\w+) = 1\.0 / \(1\.0 \+ tl\.exp\(-\1\)\)", "", made.code)
    assert plain != made.code
    assert not judge.judge(made.task, plain).accepted
