"""Counting, by hand-worked runs."""

from __future__ import annotations

import math

import pytest

from autotriton.bench.answers import PROPOSER_FAILED
from autotriton.bench.metrics import score
from autotriton.bench.score import Score
from autotriton.errors import UsageError
from autotriton.judge.cheats import Cheat
from autotriton.types import Finding, Severity


def test_every_task_stays_in_the_denominator(bench_run, attempt):
    run = bench_run("a b c d", attempt("a"), attempt("b", "wrong"), attempt("c", "no_code"))
    found = score(run)
    assert (found.checked.hits, found.checked.of, found.checked.value) == (1, 4, 0.25)
    assert (found.tasks, found.answered, found.candidates, found.unanswered) == (4, 3, 3, ("d",))
    assert found.outcomes == {"correct": 1, "wrong": 1, "no_code": 1}


def test_official_and_checked_are_counted_apart(bench_run, attempt):
    run = bench_run(
        "a b c d",
        attempt("a", official=(True, True)),
        attempt("b", "rejected", official=(True, True)),
        attempt("c", "wrong", official=(True, False)),
        attempt("d", "no_code"),
    )
    found = score(run)
    assert (found.called.value, found.executed.value, found.checked.value) == (0.75, 0.5, 0.25)
    assert found.unproved.value == 0.25


def test_without_a_protocol_running_to_an_answer_is_the_call_rate(bench_run, attempt):
    run = bench_run(
        "a b c d", attempt("a"), attempt("b", "wrong"), attempt("c", "compile_error"), attempt("d", "crashed")
    )
    found = score(run)
    assert found.called.value == 0.5
    assert (found.executed, found.unproved, found.official_pass_at) == (None, None, {})


def test_excluded_tasks_count_officially_only(bench_run, attempt):
    run = bench_run(
        "a b c",
        attempt("a", official=(True, True)),
        attempt("b", official=(True, True), notes=("degenerate task: zeros pass",)),
        attempt("c", "wrong", official=(True, True)),
        excluded={"c": "random by itself"},
    )
    found = score(run)
    assert found.excluded == {"c": "random by itself", "b": "zeros pass"}
    assert (found.executed.hits, found.executed.of) == (3, 3)
    assert (found.checked.hits, found.checked.of) == (1, 1)


def test_unscored_attempts_are_reported_apart_and_never_zero(bench_run, attempt):
    run = bench_run("a b c", attempt("a"), attempt("b", "wrong"), attempt("c", error="the GPU fell off the bus"))
    found = score(run)
    assert (found.checked.hits, found.checked.of) == (1, 2)
    assert [(u.task, u.sample, u.error) for u in found.unscored] == [("c", 0, "the GPU fell off the bus")]
    assert found.candidates == 2


def test_skipped_tasks_are_counted_and_named(bench_run, attempt):
    found = score(bench_run("a b", attempt("a"), skipped={"b": "needs 40 GB"}))
    assert (found.checked.of, found.skipped, found.unanswered) == (2, {"b": "needs 40 GB"}, ())


def test_a_sample_tried_again_counts_once(bench_run, attempt):
    found = score(bench_run("a", attempt("a", error="broke"), attempt("a")))
    assert (found.candidates, found.unscored, found.checked.value) == (1, (), 1.0)
    found = score(bench_run("a", attempt("a"), attempt("a", error="broke")))
    assert (found.candidates, found.unscored) == (1, ())


def test_samples_are_averaged_and_missing_ones_fail(bench_run, attempt):
    solved = [attempt("a", "correct" if i < 3 else "wrong", sample=i) for i in range(10)]
    found = score(bench_run("a b", *solved, attempt("b", sample=0), k=10))
    assert found.checked.hits == pytest.approx(0.4)  # 3/10 + 1/10
    assert found.checked.value == pytest.approx(0.2)
    assert set(found.pass_at) == {1, 2, 5, 10}
    # b misses a pair of samples with C(9,2) / C(10,2) = 36/45, a with C(7,2) / C(10,2) = 21/45.
    assert found.pass_at[2].value == pytest.approx((9 / 45 + 24 / 45) / 2)
    assert found.pass_at[10].value == 1.0
    assert found.pass_at[1].value == pytest.approx(found.checked.value)


def test_pass_at_k_leaves_out_tasks_with_too_few_scored_samples(bench_run, attempt):
    run = bench_run(
        "a b", attempt("a"), attempt("a", sample=1), attempt("b"), attempt("b", error="broke", sample=1), k=2
    )
    assert (score(run).pass_at[2].of, score(run).pass_at[1].of) == (1, 2)


def test_fast_p_counts_all_tasks_by_the_lower_end(bench_run, attempt):
    run = bench_run(
        "a b c d",
        attempt("a", eager=(1.3, 1.4), compile=(0.9, 1.1)),
        attempt("b", eager=(0.97, 1.01), compile=(0.7, 0.8)),
        attempt("c", "suspect", eager=(90.0, 99.0)),
        attempt("d", "wrong"),
    )
    found = score(run)
    assert [(f.baseline, f.p) for f in found.fast] == [(b, p) for b in ("eager", "compile") for p in (1, 1.2, 1.5, 2)]
    assert [f.sure.value for f in found.fast] == [0.25, 0.25, 0, 0, 0, 0, 0, 0]
    assert [f.median.value for f in found.fast] == [0.5, 0.25, 0, 0, 0.25, 0, 0, 0]
    assert found.faster(1.2).sure.of == 4
    assert found.faster(3.0) is None


def test_exactly_p_is_not_faster_than_p(bench_run, attempt):
    found = score(bench_run("a", attempt("a", eager=(2.0, 2.0))))
    assert (found.faster(2.0).sure.value, found.faster(2.0).median.value) == (0.0, 0.0)


def test_geometric_mean_runs_failed_tasks_eagerly(bench_run, attempt):
    run = bench_run(
        "a b c d", attempt("a", eager=4.0, compile=2.0), attempt("b", "wrong"), attempt("c", eager=0.25, compile=0.5)
    )
    found = score(run).geometric_mean
    assert found["eager"].value == pytest.approx(1.0)  # 4 * 1 * 1/4 * 1
    assert found["compile"].value == pytest.approx(1.0)
    assert (found["eager"].tasks, found["eager"].assumed, found["compile"].assumed) == (4, 0, 2)
    assert found["eager"].low < 1 < found["eager"].high


def test_failed_task_loses_to_compile_what_eager_loses(bench_run, attempt):
    # On b eager takes 8 ms and the compiled program 4, so running eagerly is half as fast.
    run = bench_run("a b", attempt("a", eager=2.0, compile=1.0), attempt("b", "suspect", eager=8.0, compile=4.0))
    assert score(run).geometric_mean["compile"].value == pytest.approx(math.sqrt(1.0 * 0.5))


def test_geometric_mean_of_several_samples_is_the_expectation_of_one(bench_run, attempt):
    run = bench_run("a", attempt("a", eager=4.0), attempt("a", "wrong", sample=1), k=2)
    assert score(run).geometric_mean["eager"].value == pytest.approx(2.0)


def test_untimed_runs_have_no_speed(bench_run, attempt):
    found = score(bench_run("a", attempt("a")))
    assert (found.fast, found.geometric_mean) == ((), {})


def test_score_says_what_made_it(bench_run, attempt):
    found = score(bench_run("a", attempt("a")))
    assert (found.suite, found.suite_version, found.judge_version, found.run_id) == (
        "kernelbench-l1",
        "abc123",
        "7",
        "run-1",
    )
    assert (found.machine.gpu, found.policy, found.proposer, found.commit) == (
        "NVIDIA H200",
        "strict",
        "model:tiny",
        "0" * 40,
    )
    assert Score.model_validate_json(found.model_dump_json()) == found


def test_run_without_attempts_is_a_score_of_zero_with_an_honest_interval(bench_run):
    found = score(bench_run("a b"))
    assert (found.checked.value, found.answered, found.unanswered) == (0.0, 0, ("a", "b"))
    assert found.checked.high > 0.6


def test_attempt_outside_the_suite_is_an_error(bench_run, attempt):
    with pytest.raises(UsageError, match="does not list"):
        score(bench_run("a", attempt("z")))


def test_shares_are_of_all_candidates_judged(bench_run, attempt):
    delegates = Finding(rule="torch-compute", severity=Severity.ERROR, message="`aten::mm` is left to torch")
    run = bench_run(
        "a b c d e",
        attempt("a", "rejected", findings=(delegates,)),
        attempt("b", "rejected", findings=(delegates,)),
        attempt("c", "no_work", message="no Triton kernel was launched in forward"),
        attempt("d"),
        attempt("e", error="broke"),
    )
    found = {caught.kind: (caught.share.hits, caught.share.of) for caught in score(run).cheats}
    assert found == {Cheat.DELEGATION: (2, 4), Cheat.NO_KERNEL: (1, 4)}


@pytest.mark.parametrize("k", [1, 3])
def test_task_that_nobody_can_score_is_no_failure_however_many_samples_it_was_asked_for(bench_run, attempt, k):
    """After the first answer shows that the task is random, the others are not judged."""
    solved = [attempt("a", sample=sample, official=(True, True)) for sample in range(k)]
    broke = attempt("b", error="the task is random by itself")
    found = score(bench_run("a b", *solved, broke, k=k, excluded={"b": "random by itself"}))
    assert (found.called.of, found.executed.of, found.executed.value) == (1, 1, 1.0)
    assert found.missing == 0


def test_task_skipped_by_its_first_attempt_counts_as_one_skipped_before(bench_run, attempt):
    right = attempt("a", official=(True, True))
    skipped = {"b": "needs too much memory"}
    before = score(bench_run("a b", right, skipped=skipped))
    found = score(bench_run("a b", right, attempt("b", error="needs too much memory"), skipped=skipped))
    assert (found.checked.hits, found.checked.of, found.executed.of) == (1, 2, 2)
    assert found == before


def test_share_of_nothing_is_no_zero(bench_run, attempt):
    found = score(bench_run("a", attempt("a", error="broke"), k=1))
    assert (found.checked.of, found.checked.value) == (0, None)
    assert (found.checked.low, found.checked.high) == (0, 1)
    assert found.pass_at[1].value is None


def test_answers_that_never_came_are_counted(bench_run, attempt):
    run = bench_run("a b c", attempt("a"), attempt("a", sample=1), attempt("b"), k=2, skipped={"c": "too large"})
    assert score(run).missing == 1


def test_a_score_says_how_far_candidates_were_taken(bench_run, attempt):
    run = bench_run("a b", attempt("a", tier="rules"), attempt("b", tier="interpret"))
    assert score(run).tier == "interpret"
    asked = run.info.model_copy(update={"config": {**run.info.config, "tier": "rules"}})
    assert score(type(run)(asked, run.suite, run.attempts)).tier == "rules"


def test_samples_a_broken_proposer_never_came_to_are_no_failures(bench_run, attempt):
    """A server that is down leaves one record for all that it still owes of a task."""
    down = f"{PROPOSER_FAILED} cannot reach the server"
    run = bench_run("a b", attempt("a"), attempt("a", "wrong", sample=1), attempt("a", sample=2, error=down), k=5)
    found = score(run)
    assert (found.checked.hits, found.checked.of) == (0.5, 2), "b was never asked about, as in an interrupted run"
    assert (found.missing, found.pass_at[2].hits) == (5, 1)
    assert score(bench_run("a", attempt("a", error=down), k=5)).checked.value is None
    judge_broke = score(bench_run("a", attempt("a", error="the judge broke"), k=5))
    assert (judge_broke.checked.hits, judge_broke.checked.of) == (0, 1), "the proposer had no more"
