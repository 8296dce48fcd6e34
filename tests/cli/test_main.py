"""What every verb shares: help at once, errors on one line, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import autotriton
from autotriton.cli import main as main_module
from autotriton.errors import JudgeError, PrerequisiteError, ProposerError, TaskError, UsageError


@pytest.fixture
def judge_args(examples):
    return ["judge", examples / "softmax.py", examples / "softmax_triton.py"]


@pytest.mark.parametrize("verb", ["judge", "optimize"])
def test_help_answers_without_torch(verb):
    code = (
        f"import sys; from autotriton.cli.main import main; code = main(['{verb}', '--help']);"
        "sys.exit(code or 'torch' in sys.modules or 'triton' in sys.modules)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0
    assert "--policy" in child.stdout


def test_module_and_command_are_the_same():
    child = subprocess.run(
        [sys.executable, "-m", "autotriton", "--version"], capture_output=True, text=True, check=False
    )
    assert child.stdout == f"autotriton {autotriton.__version__}\n"


def test_no_arguments_print_the_help(run):
    code, out, _ = run()
    assert code == 0
    assert "judge" in out
    assert "doctor" in out


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["nonsense"], ["nonsense"]),
        (["judge"], ["TASK"]),
        (["judge", "a", "b", "--nonsense"], ["--nonsense"]),
        (["judge", "a", "b", "--policy", "lax"], ["lax", "strict", "mixed", "paper"]),
        (["judge", "a", "b", "--tier", "x"], ["'x'", "rules", "interpret", "compile", "run", "time"]),
        (["judge", "a", "b", "--device", "tpu"], ["auto", "cpu", "cuda"]),
        (["judge", "a", "b", "--seed", "pi"], ["--seed"]),
    ],
)
def test_wrong_call_is_one_line_and_exit_2(run, args, parts):
    code, out, err = run(*args)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert all(part in err for part in parts)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (UsageError("a", hint="b"), 2),
        (PrerequisiteError("a", hint="b"), 3),
        (JudgeError("a", hint="b"), 3),
        (TaskError("a", hint="b"), 4),
        (ProposerError("a", hint="b"), 1),
    ],
)
def test_error_becomes_one_line_and_its_exit_code(run, fake_judge, judge_args, error, exit_code):
    fake_judge.answer = error
    assert run(*judge_args) == (exit_code, "", "error: a (b)\n")


def test_error_with_json_is_an_object_on_stdout_too(run, fake_judge, judge_args):
    fake_judge.answer = TaskError("random by itself", hint="remove the dropout")
    code, out, err = run(*judge_args, "--json")
    assert code == 4
    assert json.loads(out) == {"error": "random by itself", "hint": "remove the dropout", "exit_code": 4}
    assert err == "error: random by itself (remove the dropout)\n"


def test_wrong_call_with_json_is_an_object_on_stdout_too(run):
    code, out, _ = run("judge", "--json")
    assert code == 2
    assert json.loads(out)["exit_code"] == 2


def test_error_of_many_lines_is_shown_on_one(run, fake_judge, judge_args):
    fake_judge.answer = JudgeError("first\n  second")
    assert run(*judge_args)[2] == "error: first second\n"


def test_interrupt_is_exit_130(run, fake_judge, judge_args):
    fake_judge.answer = KeyboardInterrupt()
    code, _, err = run(*judge_args)
    assert code == 130
    assert err == "error: interrupted\n"


def test_unexpected_exception_is_one_line_and_exit_3(run, fake_judge, judge_args, monkeypatch):
    monkeypatch.delenv("AUTOTRITON_DEBUG", raising=False)
    fake_judge.answer = ZeroDivisionError("by zero")
    code, out, err = run(*judge_args)
    assert (code, out) == (3, "")
    assert err == "internal error: ZeroDivisionError: by zero (run with AUTOTRITON_DEBUG=1 for the traceback)\n"


def test_debug_shows_the_traceback(run, fake_judge, judge_args, monkeypatch):
    monkeypatch.setenv("AUTOTRITON_DEBUG", "1")
    fake_judge.answer = ZeroDivisionError("by zero")
    assert "Traceback" in run(*judge_args)[2]


def test_every_verb_has_json():
    commands = main_module.app.registered_commands
    assert {command.name for command in commands} >= {"judge", "optimize", "bench", "report", "doctor"}
    assert all("as_json" in command.callback.__annotations__ for command in commands)
