"""How one candidate's processes and words become an outcome. No process runs here."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from autotriton.errors import JudgeError
from autotriton.judge.channel import ChannelError
from autotriton.judge.forks import Ending
from autotriton.judge.options import JUDGE_VERSION, JudgeOptions
from autotriton.judge.trial import Bench, Decided, Strayed, Trial, candidate_limits, correctness, ended, entries, gate
from autotriton.types import Finding, Kernel, Outcome, Policy, Severity, Task, Tier

TASK = Task(id="task", source="source")
KERNEL = "import triton\n\n\n@triton.jit\ndef kernel(x_ptr):\n    pass\n\n\n"


def trial(code: str = "code", task: Task = TASK, **options) -> Trial:
    return Trial(
        task, code, JudgeOptions(**options), SimpleNamespace(triton_seed=lambda: "folder", machine=lambda: None)
    )


# --- endings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "exit_code", "outcome", "words"),
    [
        ("deadline", -9, Outcome.TIMED_OUT, "ran past its deadline"),
        ("stuck", -9, Outcome.TIMED_OUT, "ran past its deadline"),
        ("memory", -9, Outcome.CRASHED, "too much of: memory"),
        ("processes", -9, Outcome.CRASHED, "too much of: processes"),
        ("disk", -9, Outcome.CRASHED, "too much of: disk"),
        ("", -11, Outcome.CRASHED, "crashed with signal 11"),
        ("", 0, Outcome.CRASHED, r"ended its process \(exit code 0\) instead of answering"),
        ("", 3, Outcome.CRASHED, r"exit code 3"),
    ],
)
def test_how_a_process_ended_names_the_outcome(reason, exit_code, outcome, words):
    found = ended(Ending(reason, exit_code, ""), Tier.RUN)
    with pytest.raises(Decided, match=words):
        raise found
    assert (found.outcome, found.tier) == (outcome, Tier.RUN)


def test_a_sandbox_that_failed_is_the_judges_fault():
    with pytest.raises(JudgeError, match="the sandbox could not be set up: monitor: no"):
        ended(Ending("monitor: no", 1, ""), Tier.RUN)


def test_the_last_words_are_kept_and_kept_short():
    found = ended(Ending("", 1, "x" * 5000 + " last words\n"), Tier.RUN)
    assert found.message.endswith("last words")
    assert len(found.message) < 400


# --- names and rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "names"),
    [("Model", ["ModelNew"]), ("rope", ["ModelNew", "ropeNew", "rope_new", "rope"])],
)
def test_names_a_replacement_may_have(entry, names):
    assert entries(TASK.model_copy(update={"entry": entry})) == names


@pytest.mark.parametrize("code", ["", "   \n\n", "# only words", '"""only words"""'])
def test_no_code_is_its_own_outcome(code):
    with pytest.raises(Decided) as found:
        gate(trial(code))
    assert found.value.outcome is Outcome.NO_CODE


def test_the_first_error_is_the_message_and_the_rest_are_counted():
    on = trial(
        "import ctypes\nimport socket\n"
        + KERNEL
        + "class ModelNew:\n    def forward(self, x):\n        kernel[(1,)](x)\n"
    )
    with pytest.raises(Decided, match=r"^line 1: .*\(and \d+ more\)$") as found:
        gate(on)
    assert found.value.outcome is Outcome.REJECTED
    assert found.value.tier is Tier.RULES
    assert len(on.findings) >= 2


@pytest.mark.parametrize("name", ["ModelNew", "ropeNew", "rope_new", "rope"])
def test_a_function_task_is_scanned_for_the_name_the_candidate_uses(name):
    on = trial(KERNEL + f"def {name}(x):\n    kernel[(1,)](x)\n", TASK.model_copy(update={"entry": "rope"}))
    gate(on)
    assert [finding for finding in on.findings if finding.severity is Severity.ERROR] == []


def test_a_trusted_candidate_is_not_scanned():
    on = trial("import ctypes", trust_candidate=True)
    gate(on)
    assert on.findings == []


# --- the record -------------------------------------------------------------------------------------------


def test_a_verdict_holds_what_is_known_so_far():
    on = trial(policy=Policy.MIXED)
    on.kernels["kernel"] = Kernel(name="kernel", launches=2)
    on.triton_share = 0.75
    with on.stage("cases"):
        pass
    with on.stage("cases"):
        pass
    found = on.verdict(Outcome.WRONG, Tier.INTERPRET, "no")
    assert found.kernels[0].launches == 2
    assert (found.triton_share, found.policy, found.judge_version) == (0.75, Policy.MIXED, JUDGE_VERSION)
    assert list(found.stage_seconds) == ["cases"]
    assert not found.accepted


def test_a_stage_counts_also_when_it_raises():
    on = trial()
    with pytest.raises(ZeroDivisionError), on.stage("cases"):
        raise ZeroDivisionError
    assert "cases" in on.stage_seconds


def test_starting_over_keeps_the_rules_findings_and_the_tasks_notes():
    on = trial()
    rule = Finding(rule="kernel-smell", severity=Severity.WARNING, message="hm")
    on.findings += [rule, Finding(rule="torch-compute", severity=Severity.ERROR, message="no")]
    on.notes += ["degenerate task: yes", "not deterministic: bits", "kernel `k` does not compile for sm_80: no"]
    on.kernels["k"] = Kernel(name="k")
    on.deterministic, on.triton_share = False, 0.1
    on.start_over()
    assert on.findings == [rule]
    assert on.notes == ["degenerate task: yes"]
    assert (on.kernels, on.checks, on.deterministic, on.triton_share) == ({}, [], None, None)


# --- what a candidate's process says ----------------------------------------------------------------------


class FakeProcess:
    """Answers what it is given, counted for as many calls as it is asked for; without an answer it has ended."""

    def __init__(self, *answers, ending=None):
        self.answers, self.ending, self.sent = list(answers), ending or Ending("", 0, ""), []
        self.channel = SimpleNamespace(send=lambda message, _=(): self.sent.append(message))
        self.clock = time.monotonic

    def receive(self, _timeout_s):
        if not self.answers:
            raise ChannelError("closed")
        return {key: _times(value, self.sent[-1].get("times", 1)) for key, value in self.answers.pop(0).items()}, []

    def end(self, **_):
        return self.ending


def _times(value, times):
    if isinstance(value, dict):
        return {name: count * times if isinstance(count, int) else count for name, count in value.items()}
    return [part * times for part in value] if isinstance(value, list) else value


class FakeReference:
    """Two cases; `checks` are its answers in order, passed when there are none left."""

    def __init__(self, *checks, **about):
        self.about = {
            "cases": ["draw#1", "draw#2"],
            "moves_only": False,
            "mutates": False,
            "bytes": 100,
            "op_flops": 0,
            "op_bytes": 4.3e12,
            **about,
        }
        self.checks = list(checks)

    def ask(self, do, session, **_):
        if do == "fill":
            return {"inputs": [], "state": [], "call": ""}
        check = self.checks.pop(0) if self.checks else True
        return {
            "check": {"inputs": "draw#1", "passed": check, "detail": "" if check else "largest error"},
            "same": True,
        }


def bench(process, reference=None, **options) -> Bench:
    return Bench(trial(**options), reference or FakeReference(), "cpu", Tier.INTERPRET, process, 0)


def said(kind: str, **more: object) -> dict[str, object]:
    return {"kind": kind, "type": "ValueError", "text": "no", **more}


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        (said("raised", line=7), Outcome.RUNTIME_ERROR, "^line 7: raised in forward: ValueError: no$"),
        (said("raised", type="CompilationError"), Outcome.COMPILE_ERROR, "CompilationError: no"),
        (said("raised", out_of_memory=True), Outcome.RUNTIME_ERROR, "out of memory: no"),
        (said("unsupported"), Outcome.RUNTIME_ERROR, "interpreter cannot run"),
        (said("unusable", text="returned a str"), Outcome.WRONG, "^returned a str$"),
        (said("blocked", blocked=[["aten::mm", 4]]), Outcome.REJECTED, "^line 4: `aten::mm` is left to torch"),
        (said("raised", violations=["kernel `k`: outside"]), Outcome.RUNTIME_ERROR, "^kernel `k`: outside"),
        (said("raised", broken_fences=1), Outcome.WRONG, "wrote past the end"),
    ],
)
def test_an_error_in_forward_names_the_outcome(error, outcome, words):
    with pytest.raises(Decided, match=words) as found:
        bench(FakeProcess({"error": error})).ask({"do": "run"})
    assert found.value.outcome is outcome


def test_an_unusable_candidate_is_rejected_when_it_is_loaded():
    with pytest.raises(Decided) as found:
        bench(FakeProcess({"error": {"kind": "unusable", "text": "no `ModelNew`"}})).ask({"do": "load"})
    assert found.value.outcome is Outcome.REJECTED


def test_silence_is_an_ending():
    with pytest.raises(Decided) as found:
        bench(FakeProcess(ending=Ending("", -6, "abort"))).ask({"do": "run"})
    assert found.value.outcome is Outcome.CRASHED
    assert found.value.message == "crashed with signal 6: abort"


def test_evidence_counts_even_if_the_candidate_caught_the_exception():
    with pytest.raises(Strayed):
        bench(FakeProcess()).raise_on_evidence({"violations": ["outside"]})
    with pytest.raises(Decided, match="left to torch"):
        bench(FakeProcess()).raise_on_evidence({"blocked": [["aten::mm", None]]})
    bench(FakeProcess()).raise_on_evidence({"violations": [], "blocked": [], "broken_fences": 0})


# --- the order of the runs --------------------------------------------------------------------------------


def answers(count: int, **more):
    return [{"launches": {"kernel": 1}, "leaves": [], **more}] * count


def test_a_correct_candidate_is_run_again_late_and_without_launches():
    process = FakeProcess(*answers(6))
    on = bench(process, FakeReference(True, True, True, True, True, False))
    correctness(on)
    asked = [
        (message["config_index"], message["poison"], message["noop"], message["times"] > 1) for message in process.sent
    ]
    assert asked == [
        (0, 0, False, False), (0, 1, False, False), (0, 0, False, False),
        (1, 1, False, False), (1, 0, False, True), (1, 0, True, False),
    ]  # fmt: skip
    assert on.trial.deterministic is True
    assert on.trial.kernels["kernel"].launches == 1
    assert [check.passed for check in on.trial.checks] == [True, True]


def test_an_answer_that_survives_without_launches_is_no_work():
    with pytest.raises(Decided, match="stays right when no kernel runs") as found:
        correctness(bench(FakeProcess(*answers(6))))
    assert found.value.outcome is Outcome.NO_WORK


def test_a_candidate_that_breaks_without_launches_passes():
    correctness(bench(FakeProcess(*answers(5), {"error": {"kind": "raised", "type": "E", "text": ""}})))


def test_no_launch_is_no_work():
    with pytest.raises(Decided, match="no Triton kernel was launched") as found:
        correctness(bench(FakeProcess(*[{"leaves": []}] * 6)))
    assert found.value.outcome is Outcome.NO_WORK


@pytest.mark.parametrize(
    ("which", "words"),
    [
        (0, "wrong on case draw#1: largest"),
        (1, "differs between two calls on the same input"),
        (4, r"on call \d+ of \d+"),
    ],
)
def test_a_failed_check_says_when(which, words):
    checks = [number != which for number in range(5)]
    with pytest.raises(Decided, match=words) as found:
        correctness(bench(FakeProcess(*answers(6)), FakeReference(*checks)))
    assert found.value.outcome is Outcome.WRONG


def test_the_mixed_policy_weighs_what_is_left_to_torch():
    # The reference moves 4.3e12 bytes: one second. Torch is left 4.3e11 (a tenth) or 3.44e12 (four fifths) of them.
    process = FakeProcess(*answers(6, torch_cost=[0, 4.3e11], operators={"aten::relu": 1}))
    on = bench(process, FakeReference(*[True] * 5, False), policy=Policy.MIXED)
    correctness(on)
    assert on.trial.triton_share == pytest.approx(0.9)
    assert on.trial.torch_ops == {"aten::relu": 1}
    process = FakeProcess(*answers(6, torch_cost=[0, 3.44e12], operators={"aten::mm": 1}))
    with pytest.raises(Decided, match=r"Triton does 20% of the work and torch the rest \(aten::mm\); 50% is needed"):
        correctness(bench(process, policy=Policy.MIXED))


def test_torch_may_not_make_the_copy_a_copying_task_asks_for():
    reference = FakeReference(moves_only=True)
    process = FakeProcess(*answers(6, operators={"aten::copy_": 1}, moved_bytes={"aten::copy_": 100}))
    with pytest.raises(Decided, match="a copy in another layout") as found:
        correctness(bench(process, reference))
    assert found.value.outcome is Outcome.REJECTED


def test_distributions_are_skipped_for_lack_of_time_but_never_the_first_three():
    reference = FakeReference(*[True] * 6, False, cases=[f"case#{number}" for number in range(8)])
    process = FakeProcess(*answers(12))
    on = bench(process, reference, timeout_s=1e-9)
    with pytest.raises(Decided):
        correctness(on)  # the work test's own answer does not matter here
    assert on.trial.notes[0] == "5 of 8 input distributions were skipped for lack of time"
    assert {message["config_index"] for message in process.sent} >= {0, 1, 2}


# --- limits -----------------------------------------------------------------------------------------------


def test_the_interpreter_gets_no_devices_and_no_processes():
    on = trial(timeout_s=7.0)
    limits = candidate_limits("cpu", on.options, on.processes)
    assert (limits.deadline_s, limits.devices, limits.allow_processes) == (7.0, False, False)


def test_a_gpu_candidate_gets_devices_and_tritons_helpers():
    on = trial(timeout_s=7.0)
    limits = candidate_limits("cuda", on.options, on.processes)
    assert (limits.deadline_s, limits.devices, limits.triton_seed) == (7.0, True, "folder")
