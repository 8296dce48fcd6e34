"""Forms of a program: other words, the same work, and nothing said about it that is not so."""

from __future__ import annotations

import ast
import re
from random import Random

import pytest

from autotriton.data.pairs.answers import forms
from autotriton.data.pairs.facts import facts
from autotriton.data.pairs.rename import renamed
from autotriton.data.pairs.restyle import with_tiles, without_formulas, without_table
from autotriton.data.pairs.wording import prose, rewrite
from autotriton.judge import Judge, JudgeOptions
from autotriton.propose.extract import extract
from autotriton.types import Candidate, Task, Tier

TASK = Task(
    id="softmax",
    source="""import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=-1)


def get_inputs():
    return [torch.randn(12, 40)]


def get_init_inputs():
    return [0.5]
""",
)
CODE = '''"""Triton kernels for softmax.

Sizes are read from the tensors. `TILES` holds what may be tuned.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


TILES = {
    "softmax": {"BLOCK_R": 4, "num_warps": 4},
}


@triton.jit
def softmax_kernel(x_ptr, out_ptr, scale, n_rows, n_cols, BLOCK_C: tl.constexpr, BLOCK_R: tl.constexpr):
    """softmax(x * scale)"""
    # rows of this program
    row = (tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    col = tl.arange(0, BLOCK_C)[None, :]
    mask = (row < n_rows) & (col < n_cols)
    x = tl.load(x_ptr + row * n_cols + col, mask=mask, other=float("-inf")) * scale
    e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    tl.store(out_ptr + row * n_cols + col, e / tl.sum(e, axis=1, keep_dims=True), mask=mask)


def softmax(x, scale):
    n_rows = x.shape[0]
    n_cols = x.shape[1]
    out = torch.empty_like(x)
    tiles = TILES["softmax"]
    grid = (triton.cdiv(n_rows, tiles["BLOCK_R"]),)
    softmax_kernel[grid](x, out, scale, n_rows, n_cols, BLOCK_C=triton.next_power_of_2(n_cols), **tiles)
    return out


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return softmax(x.contiguous(), self.scale)
'''
CHOICES = {"softmax": ({"BLOCK_R": 4, "num_warps": 4}, {"BLOCK_R": 8, "num_warps": 2}, {"BLOCK_R": 1, "num_warps": 1})}
CANDIDATE = Candidate(task_id="softmax", code=CODE, choices=CHOICES)


def test_names_change_everywhere_or_nowhere() -> None:
    code = renamed(CODE, {"row": "r", "shape": "size", "softmax": "run_softmax", "x": "y", "TILES": "META"})
    assert 'META["run_softmax"]' in code
    assert "def run_softmax(x, scale)" in code, "an argument of forward keeps its name"
    assert ".shape[0]" in code
    assert "# rows of this program" in code
    assert not re.search(r"\brow\b", code)
    ast.parse(code)


@pytest.mark.parametrize("new", ["col", "list", "for", "1x"])
def test_a_name_that_is_taken_is_not_used(new: str) -> None:
    assert renamed(CODE, {"row": new}) == CODE


def test_the_table_and_the_formulas() -> None:
    code = with_tiles(CODE, {"softmax": {"BLOCK_R": 8}})
    assert '"softmax": {"BLOCK_R": 8, "num_warps": 4},' in code
    plain = without_table(code)
    assert "TILES" not in plain
    assert "    BLOCK_R = 8\n    num_warps = 4\n" in plain
    assert "BLOCK_R=BLOCK_R, num_warps=num_warps" in plain
    assert facts(plain).launches[0].settings["BLOCK_R"] == "8"
    assert facts(code).launches[0].settings["BLOCK_R"] == "8"
    assert '"""' not in without_formulas(CODE)


def test_many_forms_are_different_and_say_what_is_so() -> None:
    made = forms(CANDIDATE, 12, "seed")
    assert len({form.code for form in made}) == 12
    assert [form.code for form in forms(CANDIDATE, 12, "seed")] == [form.code for form in made]
    assert len({form.reasoning for form in made}) > 4
    for form in made:
        about = facts(form.code)
        assert about.kernels[0].name in form.reasoning
        assert "`softmax(x * scale)`" in form.reasoning
        assert "Triton kernels for" not in form.code
        rows = next(
            value for name, value in about.launches[0].settings.items() if value.isdigit() and "warps" not in name
        )
        assert re.search(rf"\b\w+={rows}\b", form.reasoning)
        assert f"{about.launches[0].settings['num_warps']} warps" in form.reasoning
        assert "maximum is subtracted" in form.reasoning
        assert extract(form.completion).strip() == form.code.strip()


def test_nothing_is_said_that_is_not_there() -> None:
    bare = CODE.replace("tl.max(x, axis=1, keep_dims=True)", "0.0").replace(".to(tl.int64)", "")
    said = forms(Candidate(task_id="t", code=bare), 1, "s")[0].reasoning
    assert "maximum" not in said
    assert "64-bit" not in said
    assert "tl.dot" not in said


def test_questions() -> None:
    asked = {rewrite(TASK, Random(seed)) for seed in range(40)}
    assert len(asked) > 15
    assert all("torch.softmax(x * self.scale" in text and "`ModelNew`" in text for text in asked)
    text = prose(TASK, Random(1))
    assert text is not None
    assert "1. return `torch.softmax(x * self.scale, dim=-1)`" in text
    assert "forward(self, x)" in text
    assert "self.scale = scale" in text
    assert "get_inputs" not in text


FUNCTION = """import torch

EPS = 1e-6


def helper(x):
    return x + 1


def scaled(x, y):
    {0}
    return z
"""


@pytest.mark.parametrize("step", ["z = helper(x)", "z = x + EPS", "if x.dim() > 1:\n        x = x.t()\n    z = x"])
def test_what_steps_alone_would_not_say_is_asked_with_the_program(step: str) -> None:
    assert prose(Task(id="f", entry="scaled", source=FUNCTION.format(step)), Random(1)) is None


def test_a_function_is_asked_for_and_given() -> None:
    task = Task(id="f", entry="scaled", source=FUNCTION.format("z = x * y"))
    asked = [prose(task, Random(seed)) or "" for seed in range(20)]
    assert {"Signature: `scaled" in text for text in asked} == {True, False}
    for text in asked:
        assert "`scaled(x, y)`" in text
        assert "1. `z = x * y`\n2. return `z`" in text
        assert "Write a function `scaled_new`" in text
    spoken = task.model_copy(update={"source": task.source.replace("y):\n", 'y):\n    """Scales x\n    by y."""\n')})
    assert "Scales x by y. " in (prose(spoken, Random(1)) or "")
    plain = CODE[: CODE.index("class ModelNew")]
    body = "        x = x.contiguous()\n        return softmax(x, y)\n"
    model = f"class ModelNew(nn.Module):\n    def forward(self, x, y=2.0):\n{body}"
    given = forms(Candidate(task_id="f", code=plain + model), 3, "s", "scaled_new")
    for form in given:
        assert "def scaled_new(x, y=2.0):\n    x = x.contiguous()\n    return " in form.code
        assert "class" not in form.code
        assert facts(form.code).kernels
    same = forms(Candidate(task_id="f", code=plain + model), 8, "s", "softmax")
    assert len(same) == 8
    for form in same:  # the kernel's wrapper has made room, and no form renames what was asked for
        assert "def softmax(x, y=2.0):\n    x = x.contiguous()\n    return launch_softmax(x, y)" in form.code
    named = task.model_copy(update={"entry": "softmax", "source": task.source.replace("def scaled", "def softmax")})
    assert "Write `softmax` anew" in rewrite(named, Random(1), same[0].code)
    kept = forms(CANDIDATE, 1, "s", "scaled_new")[0].code
    assert "class ModelNew" in kept, "a module that holds something stays one"
    assert "Write a class `ModelNew`" in rewrite(task, Random(1), kept)


def test_a_formula_over_other_names_is_not_repeated() -> None:
    foreign = CODE.replace("softmax(x * scale)", "softmax(z - z)")
    for form in forms(Candidate(task_id="t", code=foreign), 3, "s"):
        assert "z - z" not in form.completion


def test_what_is_generated_is_taught_without_its_notices() -> None:
    derived = "Kernel bodies and helper functions are derived from PyTorch; its licence is below."
    heading = f"Variant default: chosen by rule.\n\nShapes are those of the task.\n\n{derived}\n"
    notice = "\n\n# Kernel bodies and helper functions above are derived from PyTorch:\n#\n# Copyright\n"
    code = CODE.replace("Sizes are read from the tensors. `TILES` holds what may be tuned.\n", heading) + notice
    taught = forms(Candidate(task_id="t", code=code), 1, "s")[0].code
    assert taught.startswith('"""Shapes are those of the task.\n"""\n')
    assert "PyTorch" not in taught


def test_a_remark_is_no_formula() -> None:
    remark = "softmax: softmax(x * scale)\n\n    One row of x at a time.\n    "
    said = forms(Candidate(task_id="t", code=CODE.replace("softmax(x * scale)", remark, 1)), 1, "s")[0].reasoning
    assert "`softmax(x * scale)`." in said
    assert "One row of x at a time. " in said
    words = forms(
        Candidate(task_id="t", code=CODE.replace('"""softmax(x * scale)', '"""x of each row, with a scale')), 1, "s"
    )
    assert "x of each row, with a scale. " in words[0].reasoning
    assert "`x of" not in words[0].reasoning


@pytest.mark.interp
def test_forms_are_accepted_by_the_judge() -> None:
    with Judge(JudgeOptions(tier=Tier.INTERPRET)) as judge:
        for form in forms(CANDIDATE, 4, "judged"):
            verdict = judge.judge(TASK, form.code)
            assert verdict.accepted, (verdict.message, form.code)


def test_what_only_steers_the_compiler_is_not_taught() -> None:
    offsets = "row * n_cols + col"
    hinted = f"tl.max_contiguous(tl.multiple_of({offsets}, (1, 1)), (1, 2))"
    comment = "    # Neighbours in memory lie along the last dimension: let lanes run there.\n"
    place = CODE.index("    tl.store(")
    code = CODE[:place] + comment + f"    elements = {hinted}\n" + CODE[place:]
    form = forms(Candidate(task_id="t", code=code), 1, "s")[0]
    assert f"elements = {offsets}\n" in form.code
    assert "multiple_of" not in form.code
    assert "Neighbours" not in form.code


def test_functions_the_language_lacks_are_named_before_the_program() -> None:
    code = CODE.replace("import triton\n", "from triton.language.extra import libdevice\nimport triton\n", 1)
    place = code.index("    tl.store(")
    code = code[:place] + "    extra = libdevice.floor(libdevice.tanh(libdevice.log1p(1.0)))\n" + code[place:]
    assert "has no `tanh` and `log1p`: they come from" in forms(Candidate(task_id="t", code=code), 1, "s")[0].reasoning


def test_every_answer_has_the_same_imports_whatever_its_kernels_need() -> None:
    wanted = "import triton.language as tl\nfrom triton.language.extra import libdevice\n"
    early = CODE.replace("import triton\n", "from triton.language.extra import libdevice\nimport triton\n", 1)
    for code in (CODE, early):
        given = forms(Candidate(task_id="t", code=code), 1, "s")[0].code
        assert wanted in given
        assert given.count("import libdevice") == 1
