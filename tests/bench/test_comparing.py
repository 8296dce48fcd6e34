"""Runs side by side: common tasks, paired tests, what makes them hard to compare."""

from __future__ import annotations

import math

import pytest

from autotriton.bench import published
from autotriton.bench.comparing import compare, compare_channels
from autotriton.errors import UsageError


def test_discordant_tasks_are_tested_exactly(bench_run, attempt):
    tasks = "a b c d e f g"
    first = bench_run(tasks, *(attempt(task, "wrong") for task in "abcdef"), attempt("g"), run_id="one")
    second = bench_run(tasks, *(attempt(task) for task in "abcdef"), attempt("g"), run_id="two")
    (pair,) = compare([first, second]).pairs
    assert (pair.first, pair.second) == ("one", "two")
    passing = pair.passing
    assert (passing.better, passing.worse, passing.equal) == (6, 0, 1)
    assert passing.p_value == pytest.approx(2 / 64)


def test_speed_is_compared_on_paired_tasks(bench_run, attempt):
    first = bench_run("a b c", attempt("a", eager=2.0), attempt("b", eager=1.0), attempt("c", "wrong"), run_id="one")
    second = bench_run("a b c", attempt("a", eager=4.0), attempt("b", eager=2.0), attempt("c", "wrong"), run_id="two")
    speed = compare([first, second]).pairs[0].speeding
    assert speed.ratio == pytest.approx(2 ** (2 / 3))
    assert speed.p_value == 0.5  # two tasks moved: both signs agree in two of four patterns
    assert speed.low <= speed.ratio <= speed.high


def test_failing_is_never_faster(bench_run, attempt):
    first = bench_run("a b", attempt("a", eager=1.5, compile=0.5), attempt("b", eager=1.5, compile=0.5), run_id="one")
    second = bench_run("a b", attempt("a", eager=1.5, compile=0.5), attempt("b", "wrong"), run_id="two")
    assert compare([first, second]).pairs[0].speeding.ratio == pytest.approx(1 / math.sqrt(1.5))


def test_untimed_runs_are_not_compared_by_speed(bench_run, attempt):
    timed = bench_run("a", attempt("a", eager=2.0), run_id="one")
    assert compare([timed, bench_run("a", attempt("a"), run_id="two")]).pairs[0].speeding is None


def test_only_common_tasks_count(bench_run, attempt):
    first = bench_run("a b", attempt("a"), attempt("b"), run_id="one")
    second = bench_run("b c", attempt("b", "wrong"), attempt("c"), run_id="two")
    found = compare([first, second])
    assert found.tasks == ("b",)
    assert [score.checked.value for score in found.scores] == [1.0, 0.0]
    assert found.left_out == {"one": ("a",), "two": ("c",)}
    assert "1 of 2 tasks of one are not common and left out" in found.warnings


def test_task_whose_reference_changed_is_not_common(bench_run, attempt):
    first, second = (
        bench_run("a b", attempt("a"), run_id="one"),
        bench_run("a b", attempt("a"), version="new", run_id="two"),
    )
    changed = second.suite.tasks[1].model_copy(update={"source": "larger sizes"})
    suite = second.suite.model_copy(update={"tasks": (second.suite.tasks[0], changed)})
    found = compare([first, type(second)(second.info, suite, second.attempts)])
    assert found.tasks == ("a",)
    assert found.warnings[0] == "different versions of the suite: abc123, new"


def test_task_excluded_in_one_run_is_excluded_in_both(bench_run, attempt):
    first = bench_run("a b", attempt("a"), attempt("b"), excluded={"b": "random"}, run_id="one")
    second = bench_run("a b", attempt("a"), attempt("b", "wrong"), run_id="two")
    found = compare([first, second])
    assert [score.checked.of for score in found.scores] == [1, 1]
    assert found.pairs[0].passing.equal == 1


def test_unscored_tasks_are_no_win_for_anybody(bench_run, attempt):
    first = bench_run("a b", attempt("a", error="broke"), attempt("b"), run_id="one")
    second = bench_run("a b", attempt("a"), attempt("b"), run_id="two")
    passing = compare([first, second]).pairs[0].passing
    assert (passing.better, passing.worse, passing.equal) == (0, 0, 1)


def test_several_samples_are_compared_by_their_share(bench_run, attempt):
    first = bench_run("a", attempt("a"), attempt("a", "wrong", sample=1), k=2, run_id="one")
    second = bench_run("a", attempt("a"), attempt("a", sample=1), k=2, run_id="two")
    assert compare([first, second]).pairs[0].passing.better == 1


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "nothing to compare with"),
        ([{"name": "kernelbench-l2"}], "different suites: kernelbench-l1, kernelbench-l2"),
        ([{"tasks": "z"}], "no task in common"),
    ],
)
def test_what_cannot_be_compared_is_refused(bench_run, others, message):
    runs = [bench_run("a"), *(bench_run(other.pop("tasks", "a"), **other) for other in others)]
    with pytest.raises(UsageError, match=message):
        compare(runs)


def test_equal_runs_do_not_differ(bench_run, attempt):
    run = bench_run("a b", attempt("a", eager=2.0), attempt("b", "wrong"))
    found = compare([run, run])
    assert found.warnings == ()
    assert found.pairs[0].passing.p_value == 1.0
    assert math.isclose(found.pairs[0].speeding.ratio, 1.0)


def test_published_rows_are_consistent():
    for row in published.ROWS:
        assert list(row.numbers) == [channel.suite for channel in published.CHANNELS]
        for numbers in row.numbers.values():
            assert 100 >= numbers.call >= numbers.exec >= numbers.fast1 >= numbers.fast2 >= 0
    assert len(published.of_suite("kernelbench-l2")) == len(published.ROWS) + 1
    assert len(published.of_suite("tritonbench-g")) == len(published.ROWS)
    assert published.of_suite("tasks") == ()
    assert published.channel("tasks") is None


def test_runs_over_several_suites_are_compared_suite_by_suite(bench_run, attempt):
    def over_two(run_id, outcome):
        found = bench_run("a b c", attempt("a"), attempt("b", outcome), attempt("c"), run_id=run_id)
        tasks = [
            task.model_copy(update={"channel": f"kernelbench-l{level}@v1"})
            for task, level in zip(found.suite.tasks, (1, 2, 2), strict=True)
        ]
        return type(found)(found.info, found.suite.model_copy(update={"tasks": tuple(tasks)}), found.attempts)

    first, second = compare_channels([over_two("one", "wrong"), over_two("two", "correct")])
    assert (first.suite, first.tasks) == ("kernelbench-l1", ("a",))
    assert (second.suite, second.tasks) == ("kernelbench-l2", ("b", "c"))
    assert [score.checked.value for score in second.scores] == [0.5, 1.0]
    assert second.scores[0].suite_version == "v1"
    with pytest.raises(UsageError, match="different suites"):
        compare_channels([over_two("one", "wrong"), bench_run("a", attempt("a"), run_id="two", name="tritonbench-g")])


def test_answers_that_are_missing_from_a_run_are_said(bench_run, attempt):
    first = bench_run("a b c", attempt("a"), attempt("b"), attempt("c"), run_id="one")
    second = bench_run("a b c", attempt("a"), run_id="two")
    assert compare([first, second]).warnings == ("2 of 3 answers of two never came; each counts as one that fails",)


def test_another_tier_or_number_of_samples_is_said(bench_run, attempt):
    first = bench_run("a", attempt("a", tier="rules"), run_id="one")
    second = bench_run("a", attempt("a"), attempt("a", sample=1), k=2, run_id="two")
    found = compare([first, second]).warnings
    assert found == ("different tiers: rules, run", "different numbers of samples: 1, 2")
