"""Other ways to write a task than the engine's first choice: each differs from it, and each is right."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample, run_all  # noqa: E402

from autotriton.propose.compiler import CompilerProposer  # noqa: E402
from autotriton.propose.compiler.templates.engine import alternatives, emitted  # noqa: E402
from autotriton.types import Task  # noqa: E402

pytestmark = pytest.mark.interp

NORM = Sample("return self.n(x)", "torch.randn(3, 600)", init="self.n = nn.LayerNorm(600)")
WIDE = Sample("return (x * 2).sum(1), x.amax(1)", "torch.randn(2, 16400)")
DEEP = Sample("return torch.relu(self.l(x))", "torch.randn(4, 2048)", init="self.l = nn.Linear(2048, 8)")
LINEAR = Sample("return F.gelu(self.l(x)) + x", "torch.randn(20, 32)", init="self.l = nn.Linear(32, 32)")
CONV = Sample("return torch.relu(self.c(x))", "torch.randn(2, 16, 6, 6)", init="self.c = nn.Conv2d(16, 16, 3)")
POOL = Sample("return torch.relu(F.max_pool2d(x, 3, 1, 1))", "torch.randn(1, 2, 33, 64)")
CASES = {
    "strips_fused": POOL,
    "pooling_windows": replace(POOL, variant="windows"),
    "looped_norm": replace(NORM, variant="looped"),
    "looped_variance": Sample("return x.var(1), x.mean(1)", "torch.randn(3, 700).double() + 50", variant="looped"),
    "unsplit_sum": replace(WIDE, variant="unsplit"),
    "unsplit_product": replace(DEEP, variant="unsplit"),
    "presplit_product": replace(LINEAR, variant="presplit"),
    "separate_product": replace(LINEAR, variant="separate_epilogue"),
    "presplit_convolution": replace(CONV, variant="presplit"),
    "separate_convolution": replace(CONV, variant="separate_epilogue"),
    "plain_convolution": replace(CONV, way="plain"),
    "plain_sum": replace(WIDE, way="plain"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(CASES, tmp_path_factory.mktemp("variants"))


@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_right(results: dict[str, Any], name: str):
    found = results[name]
    assert not isinstance(found, str), found
    for given, wanted in found:
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


def test_statistics_in_double_precision_are_that_exact(results: dict[str, Any]):
    for given, wanted in results["looped_variance"]:
        torch.testing.assert_close(given, wanted, rtol=1e-12, atol=0.0)


def test_what_is_taught_multiplies_with_triton_s_own_means():
    taught = replace(CONV, way="plain").emitted().code
    assert "tl.dot(weight, x, acc, input_precision=PRECISION)" in taught
    assert "fp16" not in taught
    assert "plain" not in alternatives(CONV.request, "sample")


def test_variants_that_change_nothing_are_left_out():
    found = alternatives(NORM.request, "sample")
    assert set(found) == {"looped"}
    assert found["looped"].code != emitted(NORM.request, "sample").code


def test_the_proposer_offers_variants_after_its_first_choice():
    proposer = CompilerProposer(timeout_s=170, engines=("templates",))
    found = list(proposer.propose(Task(id="norm", source=NORM.source), []))
    assert [candidate.proposer for candidate in found] == ["compiler:templates", "compiler:templates:looped"]
