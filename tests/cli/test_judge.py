"""`autotriton judge`: what it asks the judge, what it prints, what it records."""

from __future__ import annotations

import json
import math

import pytest

from autotriton.errors import JudgeError, UsageError
from autotriton.store import Store
from autotriton.types import Check, Mode, Outcome, Policy, Tier


@pytest.fixture
def args(examples):
    return ["judge", examples / "softmax.py", examples / "softmax_triton.py"]


def test_accepted_is_exit_0(run, fake_judge, args):
    code, out, err = run(*args)
    assert code == 0
    assert out.startswith("accepted  softmax  correct")
    assert err == ""


def test_rejected_is_exit_1(run, fake_judge, args, make_verdict):
    fake_judge.answer = make_verdict(Outcome.NO_WORK, message="torch did the work")
    code, out, _ = run(*args)
    assert code == 1
    assert "rejected  softmax  no_work" in out
    assert "torch did the work" in out


def test_json_is_the_verdict_and_nothing_else(run, fake_judge, args, make_verdict):
    fake_judge.answer = make_verdict(
        Outcome.WRONG, checks=(Check(inputs="normal#1", passed=False, max_error=math.inf),)
    )
    code, out, err = run(*args, "--json")
    answer = json.loads(out, parse_constant=pytest.fail)
    assert (code, err) == (1, "")
    assert answer["accepted"] is False
    assert answer["outcome"] == "wrong"
    assert answer["checks"][0]["max_error"] is None


def test_what_is_not_given_stays_at_the_judges_defaults(run, fake_judge, args):
    run(*args)
    task, code, options = fake_judge.asked[0]
    assert task.mode is Mode.TRAIN
    assert "softmax_kernel" in code
    assert options == type(options)()


def test_every_option_reaches_the_judge(run, fake_judge, args):
    given = "--policy mixed --tier time --device cuda --mode eval --tf32 --allow-degenerate --sandbox none --seed 7"
    run(
        *args,
        *given.split(),
        *["--timeout", "9", "--target", "sm_80", "--target", "gfx942", "--baseline", "eager", "--baseline", "compile"],
    )
    task, _, options = fake_judge.asked[0]
    assert (task.mode, task.tf32) == (Mode.EVAL, True)
    assert (options.policy, options.tier, options.device) == (Policy.MIXED, Tier.TIME, "cuda")
    assert (options.allow_degenerate, options.sandbox, options.seed, options.timeout_s) == (True, "none", 7, 9.0)
    assert options.targets == ("sm_80", "gfx942")
    assert options.baselines == ("eager", "compile")


def test_inputs_given_by_flags_reach_the_task(run, fake_judge, args):
    run(*args, "--input", "4x4:fp16")
    assert "torch.randn((4, 4,), dtype=torch.float16)" in fake_judge.asked[0][0].source


@pytest.mark.parametrize(
    ("data", "complaint"), [(None, "does not exist"), (b"", "is empty"), (b"\x00\x01", "not a text file")]
)
def test_candidate_that_is_no_text_is_a_usage_error(run, fake_judge, args, tmp_path, data, complaint):
    path = tmp_path / "candidate.py"
    if data is not None:
        path.write_bytes(data)
    code, _, err = run(*args[:2], path)
    assert code == 2
    assert f"the candidate {path} " in err
    assert complaint in err
    assert fake_judge.asked == []


def test_candidate_that_is_no_python_is_for_the_judge_to_say(run, fake_judge, args, tmp_path):
    path = tmp_path / "candidate.py"
    path.write_text("def f(:")
    run(*args[:2], path)
    assert fake_judge.asked[0][1] == "def f(:"


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf"])
def test_timeout_must_be_positive(run, fake_judge, args, timeout):
    code, _, err = run(*args, "--timeout", timeout)
    assert code == 2
    assert "--timeout" in err


def test_attempt_is_recorded(run, fake_judge, args, tmp_path):
    _, out, _ = run(*args, "--runs", tmp_path / "runs")
    store = Store(tmp_path / "runs")
    (id,) = store.ids()
    (attempt,) = store.open(id).attempts()
    assert attempt.run_id == id
    assert attempt.verdict == fake_judge.answer
    assert id in out.replace("\n", "")


def test_judge_that_broke_is_recorded_without_a_verdict(run, fake_judge, args, tmp_path):
    fake_judge.answer = JudgeError("worker died")
    code, _, _ = run(*args, "--runs", tmp_path / "runs")
    store = Store(tmp_path / "runs")
    (attempt,) = store.open(store.ids()[0]).attempts()
    assert code == 3
    assert attempt.verdict is None
    assert attempt.error == "worker died"


def test_usage_error_is_not_an_attempt(run, fake_judge, args, tmp_path):
    fake_judge.answer = UsageError("unknown target 'sm_1'")
    run(*args, "--runs", tmp_path / "runs")
    store = Store(tmp_path / "runs")
    assert list(store.open(store.ids()[0]).attempts()) == []
