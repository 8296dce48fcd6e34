"""A benchmark on a device: several workers, timed one at a time, memory bounded, counted twice.

Meant to take about a minute on an H200 with 16 cores.
"""

from __future__ import annotations

import json

import pytest

from autotriton.cli.main import main
from autotriton.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {answer}

def get_inputs():
    return [torch.randn({shape})]

def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(y_ptr + place, {formula}, mask=place < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return {answer}
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks, answers = tmp_path / "tasks", tmp_path / "answers"
    tasks.mkdir()
    answers.mkdir()
    for name, reference, shape, formula, answer in (
        ("1_relu", "torch.relu(x)", "4096, 4096", "tl.maximum(x, 0.0)", "y"),
        ("2_double", "x * 2", "2048, 8192", "x * 2", "y"),
        ("3_decoy", "torch.relu(x)", "1024, 4096", "tl.maximum(x, 0.0)", "torch.relu(x)"),
        ("4_wrong", "x * 2", "1024, 4096", "x * 3", "y"),
        ("5_huge", "torch.relu(x)", "1 << 17, 1 << 16", "tl.maximum(x, 0.0)", "y"),
    ):
        (tasks / f"{name}.py").write_text(TASK.format(answer=reference, shape=shape))
        (answers / f"{name}.py").write_text(KERNEL.format(formula=formula, answer=answer))
    return tasks


def test_answers_are_judged_side_by_side_and_timed_alone(folders, capsys):
    code = main(["bench", "tasks", "--root", str(folders), "--proposer", "files:answers", "--workers", "4", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found = json.loads(out)
    assert (found["tasks"], found["candidates"], found["unscored"]) == (5, 4, [])
    assert [found[name]["hits"] for name in ("called", "executed", "checked")] == [4, 3, 2]
    assert "needs about" in found["skipped"]["5_huge"]
    attempts = {a.task.id: a for a in Store("runs").open(found["run_id"]).attempts()}
    for name in ("1_relu", "2_double"):
        verdict = attempts[name].verdict
        assert verdict.timing is not None
        assert 0.5 < verdict.speedups["eager"].ratio < 2.5, "a copy at the memory's speed, as eager is"
        assert "compile" in verdict.speedups
    assert attempts["3_decoy"].verdict.outcome == "rejected"


def test_a_smaller_card_is_kept_to(folders, capsys):
    (folders / "5_huge.py").write_text(TASK.format(answer="torch.relu(x)", shape="1 << 15, 1 << 15"))
    arguments = ["bench", "tasks", "--root", str(folders), "--proposer", "files:answers", "--tier", "run", "--json"]
    assert main([*arguments, "--memory", "24GiB"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "5_huge" in found["skipped"], "4 GiB in and 4 GiB out need about 51"
    assert "skipped 5_huge" in err
    assert found["checked"]["hits"] == 2
