"""The whole way on a device: proposed, judged, tuned, judged again, timed against eager and torch.compile, written.

The whole file is meant to take about two minutes on an H200 with 16 cores.
"""

from __future__ import annotations

import json

import pytest

from autotriton.cli.main import main
from autotriton.loop import Budget, OptimizeOptions, optimize
from autotriton.tune import tiles
from autotriton.types import Candidate, Task, Tier

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

TASK = Task(
    id="scaled_silu",
    source="""
import torch
import torch.nn.functional as F

class Model(torch.nn.Module):
    def forward(self, x, y):
        return F.silu(x) * y + 1.0

def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]

def get_init_inputs():
    return []
""",
)
CODE = '''"""z = x * sigmoid(x) * y + 1"""
import torch
import triton
import triton.language as tl

TILES = {"silu_mul": {"BLOCK": 32, "num_warps": 1, "num_stages": 1}}


@triton.jit
def silu_mul_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x / (1.0 + tl.exp(-x)) * y + 1.0, mask=inside)


def silu_mul(x, y):
    settings = TILES["silu_mul"]
    z = torch.empty_like(x)
    silu_mul_kernel[(triton.cdiv(x.numel(), settings["BLOCK"]),)](x, y, z, x.numel(), **settings)
    return z


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return silu_mul(x, y)
'''
CHOICES = {
    "silu_mul": tuple(
        {"BLOCK": block, "num_warps": warps, "num_stages": 1} for block, warps in ((32, 1), (1024, 4), (2048, 8))
    )
}


class Given:
    """Hands out what it was given."""

    name = "given"

    def __init__(self, *candidates):
        self.candidates = candidates

    def propose(self, task, history):
        yield from self.candidates


@pytest.fixture
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTRITON_CACHE", str(tmp_path / "cache"))


def test_tuned_kernel_is_judged_again_timed_and_faster_than_the_untuned_one(private_cache):
    slow = Candidate(task_id=TASK.id, code=CODE, proposer="given", choices=CHOICES)
    stages = []
    result = optimize(TASK, [Given(slow)], OptimizeOptions(tune_s=20), progress=stages.append)
    first, last = result.attempts
    assert (first.verdict.tier, last.verdict.tier) == (Tier.RUN, Tier.TIME)
    assert result.winner is last
    assert tiles.read(last.candidate.code)["silu_mul"]["BLOCK"] > 32
    assert (last.candidate.parent_id, last.candidate.proposer) == (slow.id, "given+tuned")
    assert set(last.verdict.speedups) == {"eager", "compile"}
    assert last.verdict.speedups["eager"].low > 1, "one pass over memory instead of three"
    assert 0 < last.verdict.roofline_share <= 1.2
    assert last.verdict.peak_memory_bytes is not None


def test_fastest_of_several_wins(private_cache):
    fast = CODE.replace('"BLOCK": 32, "num_warps": 1', '"BLOCK": 1024, "num_warps": 4')
    candidates = [Candidate(task_id=TASK.id, code=code, proposer="given") for code in (CODE, fast)]
    result = optimize(TASK, [Given(*candidates)], OptimizeOptions(budget=Budget(candidates=4)))
    assert result.winner.candidate.code == fast
    assert [a.verdict.timing is not None for a in result.attempts] == [False, False, True, True]


def test_command_writes_a_timed_kernel_and_its_chart(private_cache, examples, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = main(["optimize", str(examples / "rmsnorm.py"), "--input", "8192x384", "--budget", "60s", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(answer["verdict"]["speedups"]) == {"eager", "compile"}
    assert answer["verdict"]["tier"] == "time"
    assert 'class="ours"' in (tmp_path / answer["files"]["report"]).read_text()
