"""Functions with answers: the same for the same seed, true to their signature, accepted by the judge."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from random import Random

import pytest

from autotriton.configs import checked
from autotriton.data.build import tables
from autotriton.data.build.building import Machine, build
from autotriton.data.build.config import BuildConfig
from autotriton.data.rows import Example, TaskRow
from autotriton.data.wrappers.base import Parameter, inputs, signature
from autotriton.data.wrappers.generating import FAMILIES, again, drafts, wrapper
from autotriton.errors import UsageError
from autotriton.judge import Judge
from autotriton.judge.options import JudgeOptions
from autotriton.types import Tier

_DIGEST = """
import hashlib
from random import Random
from autotriton.data.wrappers import wrapper
made = [wrapper(3, number) for number in range(40)]
texts = [text for one in made for text in (one.task.source, one.completion, one.question(Random(1))[0])]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


def _function(code: str, name: str) -> ast.FunctionDef:
    found = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1, code
    return found[0]


def test_the_same_seed_gives_the_same_texts_in_any_process():
    made = [wrapper(3, number) for number in range(40)]
    texts = [text for one in made for text in (one.task.source, one.completion, one.question(Random(1))[0])]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", _DIGEST], capture_output=True, text=True, env=environment, check=True)
    assert there.stdout.strip() == hashlib.sha256("".join(texts).encode()).hexdigest()


def test_task_and_answer_have_one_signature():
    for number in range(300):
        made = wrapper(11, number)
        asked, answered = (_function(text, made.task.entry) for text in (made.task.source, made.code))
        assert ast.unparse(asked.args) == ast.unparse(answered.args)
        prompt, style = made.question(Random(number))
        said = (
            made.task.source.strip() if style == "module" else f"{made.task.entry}({signature(made.plan.parameters)})"
        )
        assert said in prompt


def test_every_family_is_drawn_and_answers_parse():
    made = [wrapper(5, number) for number in range(300)]
    assert {one.family for one in made} == set(FAMILIES)
    for one in made:
        tree = ast.parse(one.code)
        imported = {ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
        assert imported <= {
            "import math",
            "import torch",
            "import triton",
            "import triton.language as tl",
            "from triton.language.extra import libdevice",
        }
        assert one.completion.endswith("```")
        assert one.code.strip() in one.completion


def test_scalars_are_arguments_of_a_kernel_and_drawn_anew():
    floats = 0
    for number in range(200):
        made = wrapper(7, number)
        kernels = [
            node for node in ast.parse(made.code).body if isinstance(node, ast.FunctionDef) and node.decorator_list
        ]
        arguments = {argument.arg for kernel in kernels for argument in kernel.args.args}
        for parameter in made.plan.parameters:
            if parameter.kind == "float":
                floats += 1
                assert parameter.name in arguments
                assert parameter.given.startswith("random.uniform(")
    assert floats > 50


def test_drafts_differ_and_origins_lead_back():
    found = list(drafts(2, 30))
    assert len({draft.task.hash for draft in found}) == 30
    for draft in found:
        assert again(draft.origin).task == draft.task
    with pytest.raises(UsageError, match="no wrapper"):
        again("autotriton-wrappers 0 seed 1 number 1")


def test_inputs_are_given_by_place_until_one_is_left_out():
    parameters = (
        Parameter("input", "Tensor", "", given="x"),
        Parameter("min", "float", "", default="None"),
        Parameter("max", "float", "", default="None", given="1.0"),
        Parameter("eps", "float", "", default="0.1", keyword=True, given="0.2"),
    )
    assert signature(parameters) == "input, min=None, max=None, *, eps=0.1"
    assert inputs(parameters) == '[x], {"max": 1.0, "eps": 0.2}'


@pytest.fixture(scope="module")
def judge():
    with Judge(JudgeOptions(tier=Tier.INTERPRET, device="cpu", cases=4, late_calls_s=0.0)) as judge:
        yield judge


@pytest.mark.interp
@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [name if place % 2 else pytest.param(name, marks=pytest.mark.extra) for place, name in enumerate(FAMILIES)],
)
def test_an_answer_of_every_family_is_accepted(judge, family):
    made = wrapper(4, 1, family=family)
    verdict = judge.judge(made.task, made.code)
    assert verdict.accepted, f"{made.code}\n{verdict.message}"
    assert not verdict.torch_ops


@pytest.mark.interp
def test_a_scalar_that_is_baked_in_is_wrong(judge):
    made = next(
        one for one in (wrapper(6, number, family="broadcast") for number in range(200)) if one.plan.name == "addcmul"
    )
    baked = made.code.replace("value * ", "1.1 * ")
    assert baked != made.code
    assert judge.judge(made.task, made.code).accepted
    assert not judge.judge(made.task, baked).accepted


@pytest.mark.interp
@pytest.mark.slow
def test_a_build_teaches_wrappers_by_their_own_answers(tmp_path):
    values = {
        "name": "wrappers",
        "wrappers": {"count": 4, "seed": 8},
        "select": {"decontaminate": False, "family_share": 1.0, "held_out": 0.0, "rl_easy": 0.3},
        "verify": {"tier": "interpret", "cases": 2, "timeout_s": 200},
        "finish": {"pairs": 20, "rl": 10, "held_out": 0},
    }
    list(build(checked(BuildConfig, values), tmp_path, machine=Machine(workers=1)))
    pairs = tables.read(tables.place_of(tmp_path), "sft", Example)
    asked = tables.read(tables.place_of(tmp_path), "rl", TaskRow)
    assert pairs
    assert len(pairs) + len(asked) == 4
    for row in (*pairs, *asked):
        assert (row.origin, row.licence) == ("wrappers", "Apache-2.0")
        assert row.entry in row.prompt
    for row in pairs:
        assert row.route == "wrappers"
        assert f"def {row.entry}(" in row.code
        assert row.completion.endswith("```")
        assert row.source not in row.prompt or row.style == "module"
