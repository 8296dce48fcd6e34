"""The whole way through the templates: a task in, a file out that the judge accepts.

`--all` judges all of them, which takes minutes; the families have tests of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample

from autotriton.errors import ProposerError
from autotriton.judge import Judge, JudgeOptions
from autotriton.propose.compiler import CompilerProposer
from autotriton.propose.compiler.inductor.program import Unsupported
from autotriton.types import Candidate, Task, Tier

pytestmark = pytest.mark.interp

FUNCTION = """import torch
import torch.nn.functional as F


def gated(x, y):
    return F.silu(x) * y


def get_inputs():
    return [torch.randn(16, 24), torch.randn(16, 24)]
"""
ALWAYS = {
    "broadcast": Sample(
        "return torch.sigmoid(x * y) + z", "torch.randn(6, 1, 20), torch.randn(9, 1), torch.randn(20)", "x, y, z"
    ),
    "whole_rows": Sample("return self.n(F.softmax(x, -1))", "torch.randn(12, 70)", init="self.n = nn.LayerNorm(70)"),
    "looped_rows": Sample("return F.log_softmax(x, -1)", "torch.randn(3, 8200)"),
    "rows_in_parts": Sample("return x.sum(1), x.std(1)", "torch.randn(2, 16400)"),
    "several_outputs": Sample("y = x * 2 + 1\nreturn y, y.amax(1), {'least': y.amin(0)}", "torch.randn(12, 30)"),
    "places": Sample("values, places = x.max(1)\nreturn values, places, x.argmin(0)", "torch.randn(12, 30)"),
    "group_norm": Sample("return F.relu(self.n(x))", "torch.randn(3, 8, 4, 5)", init="self.n = nn.GroupNorm(2, 8)"),
    "batch_norm": Sample("return self.n(x)", "torch.randn(6, 5, 4)", init="self.n = nn.BatchNorm1d(5)"),
    "embedding": Sample(
        "return F.pad(torch.cat((self.t(x), y), 1), (1, 2))",
        "torch.randint(0, 50, (4, 6)), torch.randn(4, 3, 8)",
        "x, y",
        "self.t = nn.Embedding(50, 8)",
    ),
    "live_number": Sample("return x * scale + x.mean(1, keepdim=True)", "torch.randn(12, 30), 2.5", "x, scale"),
    "containers": Sample(
        "a, b = given['pair']\nreturn (a + b, [a * given['scale']])",
        "{'pair': (torch.randn(7, 9), torch.randn(7, 9)), 'scale': torch.randn(9)}",
        "given",
    ),
    "brain_floats": Sample(
        "return F.silu(x) * y, x.sum(1)", "*(torch.randn(16, 24).bfloat16() for _ in range(2))", "x, y"
    ),
    "integers": Sample(
        "return (x > 2) & m, x // 3 + x % 3, m.sum(1)", "torch.randint(0, 9, (6, 20)), torch.rand(6, 20) > 0.5", "x, m"
    ),
    "function": None,
}
MORE = {
    "linear": Sample("return F.gelu(self.l(x)) + x", "torch.randn(20, 32)", init="self.l = nn.Linear(32, 32)"),
    "mlp": Sample(
        "return self.s(x)",
        "torch.randn(9, 24)",
        init="self.s = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 24), nn.ReLU(), nn.LayerNorm(24))",
    ),
    "attention": Sample(
        "return self.a(x, x, x)[0]",
        "torch.randn(2, 9, 16)",
        init="self.a = nn.MultiheadAttention(16, 2, batch_first=True)",
    ),
    "transformer": Sample(
        "return self.e(x)",
        "torch.randn(2, 9, 16)",
        init="self.e = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)",
    ),
    "convolution": Sample(
        "return F.relu(self.c(x)).mean((2, 3))", "torch.randn(2, 3, 9, 9)", init="self.c = nn.Conv2d(3, 8, 3)"
    ),
    "pooling": Sample("return F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)", "torch.randn(2, 3, 8, 8)"),
    "cumulative": Sample("return x.cumsum(1) / (1 + x.abs().sum(1, keepdim=True))", "torch.randn(5, 40)"),
    "recurrent": Sample("return self.r(x)[0]", "torch.randn(5, 2, 8)", init="self.r = nn.GRU(8, 12)"),
    "sorted": Sample("return x.sort(1)[0], x.topk(3, 1)", "torch.randn(5, 20)"),
    "scattered": Sample(
        "return torch.zeros(5, 9).scatter_add(1, i, x)", "torch.randn(5, 20), torch.randint(0, 9, (5, 20))", "x, i"
    ),
    "cross_entropy": Sample("return F.cross_entropy(x, t)", "torch.randn(16, 9), torch.randint(0, 9, (16,))", "x, t"),
    "written_parts": Sample("y = x.clone()\ny[:, 1:3] = 0\ny[:, ::2] += 1\nreturn y", "torch.randn(5, 8)"),
    "upsampled": Sample("return F.interpolate(x, scale_factor=2, mode='bilinear')", "torch.randn(2, 3, 5, 5)"),
    "distances": Sample("return torch.cdist(x, y)", "torch.randn(9, 6), torch.randn(7, 6)", "x, y"),
    "returned_max": Sample("return torch.max(x, 1)", "torch.randn(9, 6)"),
    "rotary": Sample(
        "a, b = x.chunk(2, -1)\nreturn torch.cat((a * c - b * s, a * s + b * c), -1)",
        "torch.randn(2, 5, 8), torch.randn(5, 4), torch.randn(5, 4)",
        "x, c, s",
    ),
}
QUICK = ("rows_in_parts", "live_number", "function")
JUDGED = {**ALWAYS, **MORE}


def _task(name: str) -> Task:
    sample = {**ALWAYS, **MORE}[name]
    return Task(id=name, source=FUNCTION, entry="gated") if sample is None else Task(id=name, source=sample.source)


def _proposed(task: Task) -> Candidate:
    return next(CompilerProposer(timeout_s=90, engines=("templates",)).propose(task, []))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(JudgeOptions(tier=Tier.INTERPRET, timeout_s=60, late_calls_s=0.2)) as held:
        yield held


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.extra) for name in JUDGED]
)
def test_the_judge_accepts_what_is_proposed(judge: Judge, name: str):
    task = _task(name)
    candidate = _proposed(task)
    verdict = judge.judge(task, candidate.code)
    assert verdict.accepted, verdict.message
    assert set(candidate.choices) <= {line.partition("(")[0][4:] for line in candidate.code.splitlines()}


@pytest.mark.parametrize(
    ("forward", "drawn", "said"),
    [
        ("return x + 1 if x.sum() > 0 else x", "torch.randn(8, 8)", "reads tensor values to decide"),
        pytest.param(
            "return F.dropout(x, 0.5, training=True)",
            "torch.randn(8, 8)",
            "forward is random: it calls native_dropout",
            marks=pytest.mark.extra,
        ),
        pytest.param(
            "return x * 2",
            "torch.randn(8, 8, dtype=torch.complex64)",
            "a torch.complex64 tensor",
            marks=pytest.mark.extra,
        ),
    ],
)
def test_what_the_templates_cannot_express_is_one_clear_line(forward: str, drawn: str, said: str):
    with pytest.raises(ProposerError, match=said) as error:
        _proposed(Task(id="refused", source=Sample(forward, drawn).source))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_a_type_without_kernels_is_told_by_its_name():
    with pytest.raises(Unsupported, match=r"a torch\.complex64 tensor"):
        Sample("return x * 2", "torch.randn(8, 8, dtype=torch.complex64)").emitted()
