"""`autotriton optimize`: what it asks the loop, what it prints, what it writes. The loop is a stand-in here."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

import autotriton.export
import autotriton.loop
from autotriton.cli import progress as progress_module
from autotriton.errors import JudgeError, PrerequisiteError, ProposerError, TaskError
from autotriton.loop import Budget, Doing, Failed, Judged, Result
from autotriton.store import Store
from autotriton.types import Attempt, Candidate, Check, Mode, Outcome, Policy, Speedup, Tier, Timing, TokenUsage


class FakeLoop:
    """Judges what `verdicts` lists, one attempt each, then raises `error` or returns the result."""

    def __init__(self, verdicts):
        self.verdicts, self.error, self.failures, self.asked = list(verdicts), None, (), []

    def __call__(self, task, proposers, options, run, progress):
        self.asked.append((task, proposers, options))
        attempts = []
        for number, verdict in enumerate(self.verdicts):
            candidate = Candidate(task_id=task.id, code=f"code {number}", proposer="files:x")
            attempts.append(Attempt(run_id=run.id, task=task, candidate=candidate, verdict=verdict))
            run.append(attempts[-1])
            progress(Judged(attempts[-1], None))
        if self.error is not None:
            raise self.error
        return Result(task, tuple(attempts), autotriton.loop.best(attempts), self.failures, 1.5)


@pytest.fixture
def loop(monkeypatch, make_verdict):
    fake = FakeLoop([make_verdict()])
    monkeypatch.setattr(autotriton.loop, "optimize", fake)
    return fake


@pytest.fixture
def args(examples, tmp_path, monkeypatch):
    """In a folder of its own, with a proposer that costs nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers").mkdir()
    return ["optimize", examples / "softmax.py", "--proposer", "files:answers"]


def test_verified_kernel_is_exit_0_and_written_where_people_look(run, loop, args, tmp_path):
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    assert "accepted  softmax  correct" in out
    assert (tmp_path / "optimized/softmax/softmax_triton.py").read_text() == "code 0"
    assert json.loads((tmp_path / "optimized/softmax/verdict.json").read_text())["accepted"] is True
    assert (tmp_path / "optimized/softmax/report.html").is_file()
    assert "optimized/softmax/softmax_triton.py" in out


def test_nothing_accepted_is_exit_1_with_every_reason(run, loop, args, make_verdict, tmp_path):
    loop.verdicts = [make_verdict(Outcome.WRONG, message="wrong on case zeros"), None]
    code, out, _ = run(*args)
    assert code == 1
    assert "no verified kernel  softmax" in out
    assert "#1 wrong on case zeros" in out
    assert "not judged" in out
    assert not (tmp_path / "optimized/softmax/softmax_triton.py").exists()


def test_table_shows_errors_beside_the_references_own_and_speed_ups(run, loop, args, make_verdict):
    def timing(ms):
        return Timing(median_ms=ms, p20_ms=ms, p80_ms=ms, samples=5, method="cuda events")

    check = Check(inputs="draw#1", passed=True, max_error=1e-7, reference_max_error=2e-7, allowed_error=1e-5)
    speedups = {name: Speedup(ratio=r, low=r - 0.1, high=r + 0.1) for name, r in (("eager", 3.0), ("compile", 1.5))}
    timed = {"timing": timing(0.5), "baselines": {"eager": timing(1.5), "compile": timing(0.75)}, "speedups": speedups}
    loop.verdicts = [make_verdict(checks=(check,), tier=Tier.TIME, roofline_share=0.9, **timed)]
    out = run(*args)[1]
    row = next(line for line in out.splitlines() if "files:x" in line)
    assert row.split() == ["1", "files:x", "correct", "1.00e-07", "2.00e-07", "-", "0.5", "3.00x", "1.50x"]
    assert "1.50x (1.40 to 1.60)" in out
    assert "share of the roofline: 90%" in out


def test_proposer_that_gave_up_is_shown(run, loop, args):
    loop.failures = (Failed("endpoint:x", ProposerError("is down", hint="start it")),)
    code, out, _ = run(*args)
    assert code == 0
    assert "gave up  endpoint:x: is down (start it)" in out


def test_json_is_one_object_and_nothing_else(run, loop, args, make_verdict, tmp_path):
    bad = make_verdict(Outcome.WRONG, checks=(Check(inputs="a", passed=False, max_error=math.inf),))
    loop.verdicts = [bad, make_verdict()]
    code, out, err = run(*args, "--out", tmp_path / "there", "--json")
    answer = json.loads(out, parse_constant=pytest.fail)
    assert (code, err) == (0, "")
    assert set(answer) >= {"accepted", "task", "winner", "verdict", "attempts", "files", "run"}
    assert (answer["accepted"], answer["task"]) == (True, "softmax")
    assert answer["winner"]["file"] == answer["files"]["kernel"] == str(tmp_path / "there" / "softmax_triton.py")
    assert answer["winner"]["id"] == answer["attempts"][1]["id"]
    assert [attempt["outcome"] for attempt in answer["attempts"]] == ["wrong", "correct"]
    assert answer["verdict"]["outcome"] == "correct"
    assert Store(tmp_path / "runs").open(answer["run"].rpartition("/")[2]).info.verb == "optimize"


def test_json_without_a_winner_says_null(run, loop, args, make_verdict):
    loop.verdicts = [make_verdict(Outcome.WRONG)]
    code, out, _ = run(*args, "--json")
    answer = json.loads(out)
    assert code == 1
    assert (answer["accepted"], answer["winner"], answer["verdict"]) == (False, None, None)
    assert set(answer["files"]) == {"report"}


def test_tokens_are_in_the_json(run, loop, args, monkeypatch):
    original = Candidate

    def with_usage(**fields):
        return original(**fields, usage=TokenUsage(prompt=10, completion=20))

    monkeypatch.setitem(FakeLoop.__call__.__globals__, "Candidate", with_usage)
    answer = json.loads(run(*args, "--json")[1])
    assert answer["attempts"][0]["usage"] == {"prompt": 10, "completion": 20}


def test_every_option_reaches_the_loop(run, loop, args):
    given = "--policy mixed --tier compile --device cpu --mode eval --tf32 --allow-degenerate --sandbox none --retune"
    run(*args, *given.split(), "--timeout", "9", "--target", "sm_80", "--budget", "2m", "--input", "4x4:fp16")
    task, proposers, options = loop.asked[0]
    judge = options.judge
    assert (task.mode, task.tf32) == (Mode.EVAL, True)
    assert "torch.randn((4, 4,), dtype=torch.float16)" in task.source
    assert (judge.policy, judge.tier, judge.device) == (Policy.MIXED, Tier.COMPILE, "cpu")
    assert (judge.allow_degenerate, judge.sandbox, judge.timeout_s) == (True, "none", 9.0)
    assert judge.targets == ("sm_80",)
    assert (options.budget, options.retune) == (Budget(seconds=120), True)
    assert [proposer.name for proposer in proposers] == ["files:answers"]


def test_what_is_not_given_stays_at_the_defaults(run, loop, args):
    run(*args)
    assert loop.asked[0][2] == autotriton.loop.OptimizeOptions()


def test_several_proposers_are_taken_in_order_and_once(run, loop, args, tmp_path):
    (tmp_path / "more").mkdir()
    run(*args, "--proposer", "files:more", "--proposer", "files:answers")
    assert [proposer.name for proposer in loop.asked[0][1]] == ["files:answers", "files:more"]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--proposer", "oracle"], "unknown proposer 'oracle'"),
        (["--proposer", "files:missing"], "missing does not exist"),
        (["--budget", "soon"], "--budget 'soon'"),
        (["--budget", "0"], "--budget '0'"),
        (["--out", "taken"], "cannot write into taken: Not a directory"),
        (["--out", "/proc/nowhere"], "cannot write into /proc/nowhere"),
        (["--timeout", "0"], "--timeout"),
        (["--samples", "-1", "--proposer", "model:x"], "samples"),
        (["--input", "4x"], "4x"),
        (["--resume", "20200101-000000-optimize-0000"], "no run '20200101-000000-optimize-0000'"),
    ],
)
def test_wrong_call_is_one_line_exit_2_and_no_work(run, loop, args, tmp_path, more, complaint):
    (tmp_path / "taken").touch()
    code, out, err = run(*args, *more)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err
    assert loop.asked == []
    assert not (tmp_path / "optimized").exists()


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(ProposerError("a"), 1), (PrerequisiteError("a"), 3), (JudgeError("a"), 3), (TaskError("a"), 4)],
)
def test_errors_have_their_exit_codes_and_leave_no_folder(run, loop, args, tmp_path, error, exit_code):
    loop.verdicts, loop.error = [], error
    assert run(*args) == (exit_code, "", "error: a\n")
    assert not (tmp_path / "optimized").exists()


def test_attempts_are_recorded_with_what_made_them(run, loop, args, tmp_path):
    run(*args, "--runs", tmp_path / "elsewhere", "--budget", "3")
    store = Store(tmp_path / "elsewhere")
    (id,) = store.ids()
    recorded = store.open(id)
    assert [attempt.candidate.code for attempt in recorded.attempts()] == ["code 0"]
    config = recorded.info.config
    assert (config["task"], config["proposers"], config["budget"]) == ("softmax", ["files:answers"], "3")


def test_interrupted_run_keeps_its_best_and_says_how_to_go_on(run, loop, args, tmp_path):
    loop.error = KeyboardInterrupt()
    code, _, err = run(*args)
    (id,) = Store(tmp_path / "runs").ids()
    assert code == 130
    assert f"go on with --resume runs/{id}" in err
    assert (tmp_path / "optimized/softmax/softmax_triton.py").read_text() == "code 0"


class TestExport:
    @pytest.fixture
    def exported(self, monkeypatch):
        calls = []

        def export_package(task, candidate, verdict, out_dir, name):
            calls.append((candidate.code, verdict.accepted, str(out_dir), name))
            if candidate.code == "code 1":
                raise ProposerError("task softmax could not be exported: no fake kernel")
            return out_dir

        monkeypatch.setattr(autotriton.export, "export_package", export_package)
        return calls

    def test_winner_is_exported_beside_its_file(self, run, loop, args, exported):
        code, out, _ = run(*args, "--export", "--json")
        assert code == 0
        assert exported == [("code 0", True, "optimized/softmax/package", "softmax")]
        assert json.loads(out)["files"]["export"] == "optimized/softmax/package"

    def test_nothing_is_exported_unasked_or_unverified(self, run, loop, args, exported, make_verdict):
        run(*args)
        loop.verdicts = [make_verdict(Outcome.WRONG)]
        assert run(*args, "--export")[0] == 1
        assert exported == []

    def test_export_that_fails_leaves_the_kernel_and_is_told(self, run, loop, args, exported, make_verdict, tmp_path):
        loop.verdicts = [make_verdict(Outcome.WRONG), make_verdict()]
        code, out, _ = run(*args, "--export")
        assert code == 1
        assert "gave up  export: task softmax could not be exported: no fake kernel" in out
        assert (tmp_path / "optimized/softmax/softmax_triton.py").read_text() == "code 1"


class TestResume:
    @pytest.fixture
    def id(self, run, loop, args, tmp_path):
        run(*args, "--budget", "1")
        return Store(tmp_path / "runs").ids()[0]

    @pytest.mark.parametrize("form", ["{}", "runs/{}"])
    def test_by_id_or_by_folder_and_with_another_budget(self, run, loop, args, tmp_path, id, form):
        code, _, _ = run(*args, "--budget", "60s", "--resume", form.format(id))
        assert code == 0
        assert Store(tmp_path / "runs").ids() == [id]
        assert len(list(Store(tmp_path / "runs").open(id).attempts())) == 2

    def test_other_options_are_told_apart(self, run, args, id):
        code, _, err = run(*args, "--tf32", "--policy", "mixed", "--resume", id)
        assert code == 2
        assert "policy" in err
        assert "task_hash" in err


def test_terminal_shows_attempts_and_what_happens_now(make_verdict, make_attempt):
    out = Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None, emoji=False)
    attempt = make_attempt()
    with progress_module.watching(out) as show:
        show(Doing("compiler", 2, "judging", "cases [not markup]"))
        show(Judged(attempt, attempt))
        show(Failed("endpoint:x", ProposerError("is [bold]down")))
        show(Judged(make_attempt(error="worker died"), attempt))
    text = out.file.getvalue()
    for part in ("compiler, candidate 2, judging: cases [not markup]", "correct  user", "endpoint:x: is [bold]down"):
        assert part in text
    assert "not judged  user: worker died" in text


def test_file_gets_no_progress(make_attempt):
    out = Console(file=io.StringIO())
    with progress_module.watching(out) as show:
        show(Doing("compiler", 1, "proposing"))
        show(Judged(make_attempt(), None))
    assert out.file.getvalue() == ""
