"""The command line with the real judge behind it: exit codes, what goes where, and no traceback ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.interp

ACCEPTED, REJECTED, USAGE, PREREQUISITE, TASK = range(5)


@pytest.fixture
def autotriton(examples, tmp_path):
    """Runs `python -m autotriton ...` in the examples' folder: (exit code, stdout, stderr). Never a traceback."""

    def autotriton(*args: object) -> tuple[int, str, str]:
        environment = {name: value for name, value in os.environ.items() if name != "AUTOTRITON_DEBUG"}
        # Doctor's probes write into both; other tests look there for what is left behind.
        environment |= {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-m", "autotriton", *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=examples, env=environment, timeout=120)
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr

    return autotriton


@pytest.fixture
def judge(autotriton):
    """Judges in the interpreter, whatever the machine has."""

    def judge(*args: object) -> tuple[int, str, str]:
        return autotriton("judge", "--device", "cpu", *args)

    return judge


def one_line(text: str, words: str) -> None:
    assert text.startswith("error: "), text
    assert text.count("\n") == 1, text
    assert words in text


def test_an_honest_kernel_is_exit_0(judge):
    code, out, err = judge("softmax.py", "softmax_triton.py", "--target", "sm_90")
    assert code == ACCEPTED, out + err
    assert out.startswith("accepted  softmax  correct (strict, up to run)")
    assert "softmax_kernel" in out
    assert "sm_90" in out
    assert err == ""


@pytest.mark.extra
@pytest.mark.parametrize("name", ["layernorm", "matmul_bias_gelu"])
def test_the_other_examples_are_accepted(judge, name):
    code, out, err = judge(f"{name}.py", f"{name}_triton.py", "--tier", "interpret", "--json")
    assert (code, err) == (ACCEPTED, ""), out
    assert json.loads(out)["accepted"] is True


def test_a_cheat_is_exit_1_and_says_why(judge):
    code, out, err = judge("softmax.py", "softmax_cheat.py")
    assert code == REJECTED
    assert out.startswith("rejected  softmax  rejected (strict, up to interpret)")
    assert "is left to torch" in out
    assert err == ""


def test_json_is_one_object_with_the_verdict_whatever_the_candidate_prints(judge, examples, tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text("print('{\"accepted\": true}')\n" + (examples / "softmax_cheat.py").read_text())
    code, out, err = judge("softmax.py", loud, "--json")
    assert (code, err) == (REJECTED, "")
    answer = json.loads(out)
    assert answer["accepted"] is False
    assert answer["outcome"] == "rejected"
    assert {"message", "findings", "checks", "kernels", "policy", "tier", "judge_version"} <= set(answer)


@pytest.mark.extra
def test_the_paper_policy_accepts_what_strict_does_not(judge):
    code, out, _ = judge("softmax.py", "softmax_cheat.py", "--policy", "paper", "--tier", "interpret", "--json")
    assert code == ACCEPTED, out


def test_the_seed_and_the_run_are_recorded(judge, tmp_path):
    code, out, _ = judge("softmax.py", "softmax_triton.py", "--tier", "rules", "--seed", "3", "--runs", tmp_path)
    assert code == ACCEPTED, out
    (attempts,) = tmp_path.glob("*/attempts.jsonl")
    assert json.loads(attempts.read_text())["verdict"]["outcome"] == "correct"


def test_without_a_sandbox_there_is_a_warning(judge):
    code, out, err = judge("softmax.py", "softmax_triton.py", "--sandbox", "none", "--tier", "rules", "--json")
    assert code == ACCEPTED
    assert json.loads(out)["accepted"] is True
    assert err == "warning: without a sandbox the candidate can do whatever you can do\n"


# --- wrong calls: exit 2, at once -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["missing.py", "softmax_triton.py"], "does not exist"),
        (["softmax.py", "missing.py"], "does not exist"),
        (["softmax.py:Missing", "softmax_triton.py"], "no 'Missing'"),
        (["softmax.py", "softmax_triton.py", "--policy", "lenient"], "lenient"),
        (["softmax.py", "softmax_triton.py", "--tier", "guess"], "guess"),
        (["softmax.py", "softmax_triton.py", "--target", "sm_1"], "unknown target 'sm_1'"),
        (["softmax.py", "softmax_triton.py", "--sandbox", "glass"], "glass"),
        (["softmax.py", "softmax_triton.py", "--device", "tpu"], "tpu"),
        (["softmax.py", "softmax_triton.py", "--baseline", "fastest"], "fastest"),
        (["softmax.py", "softmax_triton.py", "--timeout", "0"], "positive number"),
        (["softmax.py", "softmax_triton.py", "--input", "what?"], "what?"),
        (["softmax.py", "softmax_triton.py", "--no-such-flag"], "--no-such-flag"),
        (["softmax.py"], "CANDIDATE"),
    ],
)
def test_a_wrong_call_is_exit_2_in_one_line(autotriton, args, words):
    code, out, err = autotriton("judge", *args)
    assert (code, out) == (USAGE, "")
    one_line(err, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00\x01\xff\xfe", "is not a text file"),
        (b"def broken(:\n", "is not valid Python"),
        (b"x = 1\n", "no class `Model`"),
    ],
    ids=["empty", "binary", "unparsable", "no-model"],
)
def test_a_task_that_is_none_is_exit_2(judge, tmp_path, content, words):
    path = tmp_path / "task.py"
    path.write_bytes(content)
    code, out, err = judge(path, "softmax_triton.py")
    assert (code, out) == (USAGE, "")
    one_line(err, words)


def test_an_error_is_json_too_where_json_was_asked_for(judge):
    code, out, err = judge("missing.py", "softmax_triton.py", "--json")
    assert code == USAGE
    one_line(err, "does not exist")
    assert json.loads(out)["exit_code"] == USAGE
    assert "does not exist" in json.loads(out)["error"]


@pytest.mark.parametrize(("content", "outcome"), [("# nothing here\n", "no_code"), ("def broken(:\n", "rejected")])
def test_a_bad_candidate_is_a_verdict_and_no_error(judge, tmp_path, content, outcome):
    path = tmp_path / "candidate.py"
    path.write_text(content)
    code, out, err = judge("softmax.py", path, "--json")
    assert (code, err) == (REJECTED, "")
    assert json.loads(out)["outcome"] == outcome


# --- what the machine lacks: exit 3 -----------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_timing_without_a_gpu_is_exit_3(judge, more):
    code, out, err = judge("softmax.py", "softmax_triton.py", "--tier", "time", *more)
    assert code == PREREQUISITE
    one_line(err, "timing needs a CUDA device")
    assert json.loads(out)["exit_code"] == PREREQUISITE if more else out == ""


def test_cuda_without_a_gpu_is_exit_3(autotriton):
    if any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/kfd")):
        pytest.skip("this machine has a GPU")
    code, out, err = autotriton("judge", "softmax.py", "softmax_triton.py", "--device", "cuda")
    assert (code, out) == (PREREQUISITE, "")
    one_line(err, "no CUDA device found")


@pytest.mark.extra
def test_a_task_too_large_for_the_interpreter_is_exit_3(judge, examples, tmp_path):
    path = tmp_path / "large.py"
    path.write_text((examples / "softmax.py").read_text().replace("(64, 1000)", "(5000, 1000)"))
    code, out, err = judge(path, "softmax_triton.py")
    assert (code, out) == (PREREQUISITE, "")
    one_line(err, "too large for Triton's interpreter")


# --- tasks that prove nothing: exit 4 ---------------------------------------------------------------------

CONSTANT = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 0

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        ("return x * 0", "is degenerate"),
        pytest.param("return torch.rand_like(x)", "is random by itself", marks=pytest.mark.extra),
        pytest.param(
            "raise ValueError('line one\\nline two')", "ValueError: line one line two", marks=pytest.mark.extra
        ),
    ],
    ids=["degenerate", "random", "raises"],
)
def test_a_task_that_cannot_be_judged_is_exit_4(judge, tmp_path, forward, words):
    path = tmp_path / "task.py"
    path.write_text(CONSTANT.replace("return x * 0", forward))
    code, out, err = judge(path, "softmax_triton.py")
    assert (code, out) == (TASK, "")
    one_line(err, words)


@pytest.mark.extra
def test_a_degenerate_task_is_judged_when_asked_for(judge, tmp_path):
    path = tmp_path / "task.py"
    path.write_text(CONSTANT)
    code, out, err = judge(path, "softmax_triton.py", "--allow-degenerate", "--tier", "interpret", "--json")
    assert (code, err) == (REJECTED, "")
    assert any(note.startswith("degenerate task") for note in json.loads(out)["notes"])


# --- doctor -----------------------------------------------------------------------------------------------


def test_doctor_finds_the_sandbox_in_order(autotriton):
    code, out, err = autotriton("doctor", "--json")
    answer = json.loads(out)
    assert (code, err) == (0, ""), answer
    assert answer["passed"] is True
    assert len(answer["probes"]) >= 5
    assert all(probe["passed"] for probe in answer["probes"])
    assert answer["versions"]["torch"]


@pytest.mark.extra
def test_doctor_for_a_person(autotriton):
    code, out, err = autotriton("doctor")
    assert (code, err) == (0, "")
    assert "passed" in out
    assert "failed" not in out
