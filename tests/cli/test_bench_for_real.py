"""`autotriton bench` with nothing replaced: small tasks in KernelBench's format, the real judge, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotriton.store import Store
from autotriton.types import Outcome

pytestmark = [pytest.mark.interp, pytest.mark.timeout(300)]

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {answer}

def get_inputs():
    return [torch.randn(8, 32)]

def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(y_ptr + place, {formula}, mask=place < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return {answer}
"""
RELU = KERNEL.format(formula="tl.maximum(x, 0.0)", answer="y")
DECOY = KERNEL.format(formula="tl.maximum(x, 0.0)", answer="torch.relu(x)")
HANG = RELU.replace("        y =", "        while True:\n            x = x.view(8, 32)\n        y =")


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A checkout with three problems, and KernelBench's way of storing answers to them: two right, one a cheat."""
    monkeypatch.chdir(tmp_path)
    level = tmp_path / "checkout" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "1_Relu.py").write_text(TASK.format(answer="torch.relu(x)"))
    (level / "2_Double.py").write_text(TASK.format(answer="x * 2"))
    (level / "3_Random.py").write_text(TASK.format(answer="torch.nn.functional.dropout(x)"))
    answers = tmp_path / "answers"
    answers.mkdir()
    for problem, sample, code in (
        (1, 0, RELU),
        (1, 1, DECOY),
        (2, 0, KERNEL.format(formula="x * 2", answer="y")),
        (2, 1, KERNEL.format(formula="x * 3", answer="y")),
        (3, 0, RELU),
    ):
        (answers / f"level_1_problem_{problem}_sample_{sample}_kernel.py").write_text(code)
    return tmp_path / "checkout"


@pytest.fixture
def bench(run, suite):
    def go(*args, name="kernelbench-l1"):
        common = ("--root", suite, "--device", "cpu", "--tier", "interpret", "--workers", 2)
        return run("bench", name, *common, *args)

    return go


def test_answers_of_kernelbenchs_own_scripts_are_counted(bench, suite):
    (suite / "KernelBench" / "level1" / "4_Broken.py").write_text("class Model(:")
    code, out, err = bench("--proposer", "files:answers", "--k", 2, "--json")
    found = json.loads(out)
    assert code == 0, err
    assert (found["tasks"], found["candidates"]) == (4, 4)
    hits = [found[name]["hits"] for name in ("called", "executed", "checked")]
    assert hits == [2.0, 1.5, 1.0], "two samples a task; the decoy passes officially"
    assert found["outcomes"] == {"correct": 2, "rejected": 1, "wrong": 1}
    assert "random by itself" in found["excluded"]["3_Random"]
    assert "not valid Python" in found["skipped"]["4_Broken"]
    assert "skipped 4_Broken: the task" in err
    attempts = list(Store("runs").open(found["run_id"]).attempts())
    assert {(a.task.id, a.sample) for a in attempts if a.verdict} == {
        (t, s) for t in ("1_Relu", "2_Double") for s in (0, 1)
    }
    assert attempts[0].task.suite == f"kernelbench-l1@{found['suite_version']}"
    info = Store("runs").open(found["run_id"]).info
    assert (info.verb, info.config["k"], info.config["suite_version"]) == ("bench", 2, found["suite_version"])


def test_all_levels_in_one_run_are_counted_one_by_one(bench, suite, run):
    for level, answer in ((2, "x * 4"), (3, "x * 5")):
        (suite / "KernelBench" / f"level{level}").mkdir()
        (suite / "KernelBench" / f"level{level}" / f"1_Times{level}.py").write_text(TASK.format(answer=answer))
    code = KERNEL.format(formula="x * 4", answer="y")
    (suite.parent / "answers" / "level_2_problem_1_sample_0_kernel.py").write_text(code)
    (suite / "KernelBench" / "level3" / "2_Broken.py").write_text("class Model(:")
    code, out, err = bench("--proposer", "files:answers", "--json", name="kernelbench")
    found = json.loads(out)
    assert code == 0, err
    assert [score["suite"] for score in found["channels"]] == ["kernelbench-l1", "kernelbench-l2", "kernelbench-l3"]
    assert [score["tasks"] for score in found["channels"]] == [3, 1, 2]
    assert [score["checked"]["hits"] for score in found["channels"]] == [2, 1, 0]
    assert list(found["channels"][0]["excluded"]) == ["3_Random"]
    assert list(found["channels"][2]["skipped"]) == ["2_Broken"]
    [id] = Store("runs").ids()
    code, out, err = run("report", id, "--json")
    assert [score["suite"] for score in json.loads(out)["scores"]] == [score["suite"] for score in found["channels"]]
    code, out, err = bench("--proposer", "files:answers", "--json")
    level = json.loads(out)["run_id"]
    code, out, err = run("bench", "compare", id, level, "--json")
    assert code == 0, err
    assert json.loads(out)["suite"] == "kernelbench-l1"
    assert json.loads(out)["tasks"] == ["1_Relu", "2_Double", "3_Random"]
    (suite / "KernelBench" / "level3" / "1_Relu.py").write_text(TASK.format(answer="x * 5"))
    code, _, err = bench("--proposer", "files:answers", name="kernelbench")
    assert (code, "two levels have a task 1_Relu" in err) == (2, True)


def test_several_suites_are_runs_of_their_own(bench, suite):
    folder = suite / "KernelBench" / "level1"
    code, out, err = bench(
        "--root", folder, "--proposer", "files:answers", "--limit", 1, "--json", name="kernelbench-l1,tasks"
    )
    assert code == 0, err
    found = [json.loads(line) for line in out.splitlines()]
    assert [(score["suite"], score["tasks"]) for score in found] == [("kernelbench-l1", 1), ("tasks", 1)]
    assert [score["checked"]["hits"] for score in found] == [1, 1]
    assert Store("runs").ids() == sorted(score["run_id"] for score in found)
    code, out, err = bench(
        "--proposer", "files:answers", "--limit", 1, "--json", "--resume", found[0]["run_id"], "--stage", "judge"
    )
    assert (code, json.loads(out)["candidates"]) == (0, 1), err


def test_a_folder_of_tasks_the_compiler_and_a_resumed_run(bench, suite, run):
    folder = suite / "KernelBench" / "level1"
    args = ("bench", "tasks", "--root", folder, "--device", "cpu", "--proposer", "compiler:templates", "--limit", 1)
    args += ("--tier", "interpret")
    code, out, err = run(*args)
    assert code == 0, err
    assert "checked 100.0%" in out
    assert "[1/1] 1_Relu: correct; 1 accepted" in err
    [id] = Store("runs").ids()
    code, out, err = run(*args, "--resume", id, "--json")
    assert (code, json.loads(out)["checked"]["hits"]) == (0, 1)
    assert "1 of 1 were done before" in err
    assert len(list(Store("runs").open(id).attempts())) == 1
    code, _, err = run(*args, "--resume", f"runs/{id}", "--k", 2)
    assert code == 2
    assert "k (1 became 2)" in err


def test_an_answer_folder_without_the_tasks_answer_is_no_code(bench, tmp_path):
    (tmp_path / "none").mkdir()
    code, out, _ = bench("--proposer", "files:none", "--limit", 1, "--json")
    assert code == 0
    assert json.loads(out)["outcomes"] == {"no_code": 1}
    [attempt] = Store("runs").open(json.loads(out)["run_id"]).attempts()
    assert "no answer to task 1_Relu" in attempt.verdict.message


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("kernelbench-l7",), 2, "unknown suite 'kernelbench-l7' (did you mean"),
        (("kernelbench-l2",), 2, "has no level2"),
        (("kernelbench-l1", "--proposer", "files:nowhere"), 2, "does not exist"),
        (("kernelbench-l1", "--proposer", "oracle"), 2, "unknown proposer"),
        (("kernelbench-l1", "--memory", "lots"), 2, "not an amount of memory"),
        (("kernelbench-l1", "--tier", "time", "--device", "cpu"), 3, "timing needs a CUDA device"),
        (("kernelbench-l1", "--resume", "yesterday", "--device", "cpu"), 2, "no run 'yesterday'"),
        (("kernelbench-l1", "--k", "0"), 2, "--k"),
        (("kernelbench-l1,tasks", "--resume", "yesterday"), 2, "--resume goes on with one run"),
        (("tasks,tasks",), 2, "a suite is named twice"),
        ((",",), 2, "no suite is named"),
        (("kernelbench-l1", "--root", "elsewhere"), 2, "1 suites and 2 times --root"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_no_run(run, suite, args, code, words):
    found, out, err = run("bench", *args, "--root", suite)
    assert (found, out) == (code, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert Store("runs").ids() == []


def test_too_little_memory_skips_with_a_line_and_counts_on(bench, suite):
    (suite / "KernelBench" / "level1" / "1_Relu.py").write_text(
        TASK.format(answer="torch.relu(x)").replace("8, 32", "1 << 16, 1 << 15")
    )
    code, out, err = bench("--proposer", "files:answers", "--limit", 2, "--memory", "24GiB", "--json")
    found = json.loads(out)
    assert code == 0, err
    assert "skipped 1_Relu: needs about 91 GiB of GPU memory (inputs of 8.0 GiB, outputs of 8.0 GiB" in err
    assert (found["tasks"], found["candidates"], found["checked"]["hits"]) == (2, 1, 1)


# A test run in the background of a shell has interrupts switched off, and its children inherit that.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from autotriton.cli.main import main; raise SystemExit(main())"
)


def started(suite, *more):
    command = [sys.executable, "-c", START, "bench", "kernelbench-l1", "--root", str(suite), "--device", "cpu"]
    command += ["--tier", "interpret", "--proposer", "files:answers", "--limit", "2", "--workers", "1", *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for_attempts(process, count):
    """Until the run under way has that many attempts on disk."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for id in Store("runs").ids():
            if len(list(Store("runs").open(id).attempts())) >= count:
                return id
        time.sleep(0.1)
    raise AssertionError(f"no attempt: {process.communicate()}")


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.extra), signal.SIGKILL])
def test_an_interrupted_or_killed_run_goes_on_where_it_was(suite, how, tmp_path):
    hanging = tmp_path / "answers" / "level_1_problem_2_sample_0_kernel.py"
    right = hanging.read_text()
    hanging.write_text(HANG)
    process = started(suite)
    id = wait_for_attempts(process, 1)
    time.sleep(0.5)  # into the middle of the next candidate
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    if how is signal.SIGINT:
        assert process.returncode == 130
        last = err.strip().splitlines()[-1]
        assert last.startswith("error: interrupted; 1 attempts are kept (go on with")
        assert f"--resume runs/{id}" in last
        assert "Traceback" not in err
    hanging.write_text(right)
    (tmp_path / "runs" / id / "answers.jsonl").unlink()  # it keeps the hanging answer, which is not what is tried here
    process = started(suite, "--resume", id, "--json")
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert json.loads(out)["outcomes"] == {"correct": 2}
    attempts = list(Store("runs").open(id).attempts())
    assert [(a.task.id, a.verdict.outcome) for a in attempts] == [
        ("1_Relu", Outcome.CORRECT),
        ("2_Double", Outcome.CORRECT),
    ]


def test_a_run_is_answered_screened_and_judged_by_three_calls(bench, tmp_path):
    """The cheats and mistakes fall in the second; what may be right waits for the third."""
    asked = ("--proposer", "files:answers", "--k", 2)
    code, out, err = bench(*asked, "--stage", "answer", "--json")
    assert code == 0, err
    begun = json.loads(out)
    assert (begun["answers"], begun["judged"]) == (5, 0)
    code, out, err = bench(*asked, "--stage", "screen")
    assert (code, "--resume" in err) == (2, True), "there is nothing to screen without a run"
    code, out, err = bench(*asked, "--stage", "screen", "--resume", begun["run"])
    assert code == 0, err
    assert "5 answers, 1 of them judged" in out, "the decoy is officially right, and not refused without a GPU"
    code, out, err = bench(*asked, "--stage", "judge", "--resume", begun["run"], "--json")
    assert code == 0, err
    path = Path(begun["run"])
    verdicts = {
        (one.task.id, one.sample): one.verdict.outcome
        for one in Store(path.parent).open(path.name).attempts()
        if one.verdict
    }
    assert verdicts == {
        ("1_Relu", 0): Outcome.CORRECT,
        ("1_Relu", 1): Outcome.REJECTED,
        ("2_Double", 0): Outcome.CORRECT,
        ("2_Double", 1): Outcome.WRONG,
    }


def test_what_ends_one_of_several_runs_early_says_how_to_go_on_with_each(bench, suite, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("autotriton.bench.runner.bench", interrupted)
    folder = suite / "KernelBench" / "level1"
    code, _, err = bench("--root", folder, "--proposer", "files:answers", name="kernelbench-l1,tasks")
    by_suite = {Store("runs").open(id).info.config["suite"]: id for id in Store("runs").ids()}
    assert code == 130
    assert err.splitlines()[-1] == (
        "error: interrupted; 0 attempts are kept (go on with kernelbench-l1, the same options and --resume "
        f"runs/{by_suite['kernelbench-l1']}; with tasks, the same options and --resume runs/{by_suite['tasks']})"
    )
