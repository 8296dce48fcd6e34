"""`autotriton optimize` with nothing replaced: real proposers, the real judge, real files.

`--all` optimizes every shipped example, which takes minutes.
"""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotriton.store import Store
from autotriton.types import Candidate, Outcome

pytestmark = [pytest.mark.interp, pytest.mark.timeout(600)]

EVERY = sorted(
    path.stem
    for path in (Path(__file__).parents[2] / "examples").glob("*.py")
    if not path.stem.endswith(("_triton", "_cheat"))
)
QUICK = ("swiglu_bf16",)
TASK = """
import torch
import torch.nn as nn
{imports}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, {arguments}):
        return {answer}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(answer, *, inputs="torch.randn(8, 16)", arguments="x", imports=""):
        path = tmp_path / "mine.py"
        path.write_text(TASK.format(answer=answer, inputs=inputs, arguments=arguments, imports=imports))
        return path

    return write


@pytest.fixture
def optimize(run):
    """Optimizes in the interpreter, whatever the machine has."""
    return lambda *args: run("optimize", "--device", "cpu", *args)


def further(*values):
    return pytest.param(*values, marks=pytest.mark.extra)


def test_there_are_examples_for_newcomers():
    assert len(EVERY) >= 12
    assert set(QUICK) <= set(EVERY)


@pytest.mark.parametrize(
    "example", [name if name in QUICK else pytest.param(name, marks=pytest.mark.extra) for name in EVERY]
)
def test_example_gets_a_verified_kernel(optimize, examples, tmp_path, monkeypatch, example):
    monkeypatch.chdir(tmp_path)
    code, out, err = optimize(examples / f"{example}.py", "--json")
    assert code == 0, err + out
    answer = json.loads(out)
    assert answer["accepted"]
    assert answer["verdict"]["policy"] == "strict"
    assert answer["verdict"]["kernels"]
    assert answer["winner"]["proposer"].startswith("compiler")
    written = (tmp_path / answer["files"]["kernel"]).read_text()
    assert Candidate(task_id=example, code=written).id == answer["winner"]["id"], "the file is what was judged"
    assert imported(written) <= {"torch", "triton", "math", "__future__"}, "the file stands alone"


def imported(code):
    nodes = list(ast.walk(ast.parse(code)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_the_honest_answer_wins_over_the_cheat(optimize, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = tmp_path / "answers" / "softmax"
    answers.mkdir(parents=True)
    for place, name in enumerate(("softmax_cheat", "layernorm_triton", "softmax_triton")):
        (answers / f"{place}.py").write_text((examples / f"{name}.py").read_text())
    code, out, _ = optimize(examples / "softmax.py", "--proposer", "files:answers", "--tier", "interpret", "--json")
    answer = json.loads(out)
    assert code == 0
    assert [attempt["accepted"] for attempt in answer["attempts"]] == [False, False, True]
    written = (tmp_path / answer["files"]["kernel"]).read_text()
    assert written == (examples / "softmax_triton.py").read_text()


@pytest.mark.parametrize(
    ("fields", "exit_code", "said"),
    [
        further({"answer": "x + 1 if x.sum() > 0 else x * self.scale"}, 1, "reads tensor values"),
        further({"answer": "torch.linalg.qr(x)[1]"}, 1, "linalg_qr"),
        ({"answer": "self.scale * n", "arguments": "n", "inputs": "3"}, 2, "no tensor inputs"),
        further({"answer": "x * 2", "imports": "import not_installed_anywhere"}, 1, "not_installed_anywhere"),
        ({"answer": "x * 2", "inputs": "torch.randn(1 << 20, 1 << 20)"}, 2, "does not fit into memory"),
        further(
            {"answer": "torch.outer(x, y)", "arguments": "x, y", "inputs": "*torch.randn(2, 1 << 20)"},
            2,
            "does not fit into memory",
        ),
        further({"answer": "torch.zeros_like(x)"}, 4, "degenerate"),
        further(
            {"answer": "x * self.scale", "inputs": "torch.randn(500_000, 16)"}, 3, "too large for Triton's interpreter"
        ),
    ],
    ids=["control-flow", "operator", "no-tensors", "package", "inputs", "memory", "degenerate", "interpreter"],
)
def test_bad_input_is_one_clear_line(optimize, task, tmp_path, fields, exit_code, said):
    code, out, err = optimize(task(**fields))
    assert (code, out) == (exit_code, "")
    assert err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "optimized").exists()


# One engine and an answer from a file: what the default proposers add to this takes three times as long.
@pytest.mark.parametrize(
    ("answer", "proposer", "exit_code", "said"),
    [
        ("torch.linalg.qr(x)[1]", "compiler:templates", 1, "linalg_qr"),
        ("torch.zeros_like(x)", "files:answers", 4, "degenerate"),
    ],
    ids=["operator", "degenerate"],
)
def test_task_without_a_kernel_is_one_clear_line(optimize, task, examples, tmp_path, answer, proposer, exit_code, said):
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "mine.py").write_text((examples / "softmax_triton.py").read_text())
    code, out, err = optimize(task(answer), "--proposer", proposer)
    assert (code, out) == (exit_code, "")
    assert err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "optimized").exists()


def test_too_large_for_the_interpreter_can_be_verified_at_smaller_shapes(optimize, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    large = (examples / "softmax.py").read_text().replace("(64, 1000)", "(8192, 1000)")
    (tmp_path / "softmax.py").write_text(large)
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "softmax.py").write_text((examples / "softmax_triton.py").read_text())
    smaller = ("--tier", "compile", "--target", "sm_90")
    code, out, _ = optimize("softmax.py", "--proposer", "files:answers", *smaller)
    assert code == 0
    assert "note: verified at reduced shapes only" in out


@pytest.mark.extra
def test_killed_run_is_resumed_without_judging_anything_twice(examples, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = tmp_path / "answers" / "softmax"
    answers.mkdir(parents=True)
    (answers / "0.py").write_text((examples / "softmax_cheat.py").read_text())
    (answers / "1.py").write_text((examples / "softmax_triton.py").read_text())
    arguments = ["optimize", "--device", "cpu", str(examples / "softmax.py"), "--proposer", "files:answers"]
    arguments += ["--tier", "interpret"]
    child = subprocess.Popen([sys.executable, "-m", "autotriton", *arguments], stdout=subprocess.PIPE)
    store = Store(tmp_path / "runs")
    try:
        deadline = time.monotonic() + 120
        while not (store.ids() and list(store.open(store.ids()[0]).attempts())):
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    (id,) = store.ids()
    assert [a.verdict.outcome for a in store.open(id).attempts()] == [Outcome.REJECTED]
    code, out, _ = run(*arguments, "--resume", id, "--json")
    answer = json.loads(out)
    assert code == 0
    assert [attempt["outcome"] for attempt in answer["attempts"]] == ["rejected", "correct"]
    assert len(list(store.open(id).attempts())) == 2
