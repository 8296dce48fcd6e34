"""The runner: every attempt on disk, nothing judged twice, one bad task or answer costs itself."""

from __future__ import annotations

import errno
import json
import os

import pytest

from autotriton.bench import runner
from autotriton.bench.answers import ANSWERS_FILE, MOST_CHARS
from autotriton.bench.examine import Examined, Job
from autotriton.bench.records import SUITE_FILE
from autotriton.bench.runner import Begun, Came, Dropped, Finished, RunnerOptions, Stage
from autotriton.bench.screening import NOTE, screened
from autotriton.errors import PrerequisiteError
from autotriton.propose.files import FilesProposer
from autotriton.store import Store
from autotriton.types import Candidate, Official, Outcome


@pytest.fixture
def run(tmp_path):
    with Store(tmp_path / "runs").create("bench", {"k": 1}) as one:
        yield one


@pytest.fixture
def bench(run, suite, tasks):
    """Runs the suite of three tasks; the events are in `bench.events`."""

    def go(proposer, examiner, samples=1, on=None, **options):
        go.events = []
        return runner.bench(
            on or run, suite, tasks, proposer, examiner, RunnerOptions(samples, **options), go.events.append
        )

    return go


def test_every_task_gets_its_attempt(bench, fakes):
    found = bench(fakes.proposer({"two": ["bad"]}), fakes.examiner())
    assert {a.task.id: a.verdict.outcome for a in found.attempts} == {
        "one": Outcome.CORRECT,
        "two": Outcome.WRONG,
        "three": Outcome.CORRECT,
    }
    assert all(a.official is not None and a.official.called for a in found.attempts)
    assert bench.events[0] == Begun(3, 0)
    assert sum(isinstance(event, Finished) for event in bench.events) == 3
    assert sum(event.count for event in bench.events if isinstance(event, Came)) == 3


def test_k_samples_are_numbered_and_equal_ones_all_count(bench, fakes):
    found = bench(fakes.proposer(default=["good", "bad", "good", "never asked for"]), fakes.examiner(), samples=3)
    samples = sorted((a.task.id, a.sample, a.candidate.code) for a in found.attempts)
    assert samples[:3] == [("one", 0, "good"), ("one", 1, "bad"), ("one", 2, "good")]
    assert len(samples) == 9


def test_a_resumed_run_judges_nothing_twice_and_asks_only_for_what_is_missing(bench, run, fakes):
    first = fakes.examiner(answers={"stop": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        bench(fakes.proposer({"three": ["stop"]}), first, proposal_workers=1)
    assert [task for task, _ in first.judged] == ["one", "two", "three"]
    second, proposer = fakes.examiner(), fakes.proposer()
    found = bench(proposer, second)
    assert second.judged == [("three", "stop")], "the answer that was not judged is on disk and not asked for again"
    assert proposer.names == []
    assert len(found.attempts) == 3
    assert bench.events[0] == Begun(3, 2, 2)


def test_answers_that_were_never_judged_are_kept_on_disk(bench, run, fakes):
    with pytest.raises(KeyboardInterrupt):
        bench(
            fakes.proposer(default=["stop", "good"]), fakes.examiner(answers={"stop": KeyboardInterrupt()}), samples=2
        )
    (run.path / ANSWERS_FILE).open("a").write('{"task_id": "torn')  # as a kill leaves it
    proposer = fakes.proposer(default=["good", "other good"])
    found = bench(proposer, fakes.examiner(answers={}), samples=2)
    assert len(found.attempts) == 6
    assert ("one", 0, "stop") in {(a.task.id, a.sample, a.candidate.code) for a in found.attempts}


def test_a_judge_that_broke_is_recorded_and_tried_again_on_resume(bench, fakes):
    found = bench(fakes.proposer({"two": ["odd"]}), fakes.examiner(answers={"odd": "a reference process died"}))
    broken = next(a for a in found.attempts if a.task.id == "two")
    assert (broken.verdict, broken.error) == (None, "a reference process died")
    again = fakes.examiner()
    found = bench(fakes.proposer(), again)
    assert again.judged == [("two", "odd")]
    assert len([a for a in found.attempts if a.task.id == "two" and a.verdict is not None]) == 1


def test_a_proposer_that_raises_costs_that_sample_only(bench, fakes):
    found = bench(fakes.proposer({"two": ["good", ValueError("server\ngone")]}), fakes.examiner(), samples=3)
    of_two = [a for a in found.attempts if a.task.id == "two"]
    assert [(a.sample, a.verdict is None) for a in sorted(of_two, key=lambda a: a.sample)] == [(0, False), (1, True)]
    assert of_two[-1].error == "the proposer failed: ValueError: server gone"
    assert len([a for a in found.attempts if a.task.id != "two"]) == 2
    assert {(e.task_id, e.count) for e in bench.events if isinstance(e, Dropped)} == {
        ("one", 2),
        ("two", 1),
        ("three", 2),
    }


def test_a_proposer_with_nothing_to_say_gave_an_empty_answer(bench, fakes):
    examiner = fakes.examiner(answers={"": fakes.verdict(Outcome.NO_CODE)})
    found = bench(fakes.proposer({"two": []}), examiner)
    assert ("two", "") in examiner.judged
    assert next(a.verdict.outcome for a in found.attempts if a.task.id == "two") is Outcome.NO_CODE


def test_ten_megabytes_of_garbage_are_no_code_and_not_kept(bench, run, fakes):
    examiner = fakes.examiner()
    found = bench(fakes.proposer({"two": ["x" * 10_000_000]}), examiner)
    garbage = next(a for a in found.attempts if a.task.id == "two")
    assert garbage.verdict.outcome is Outcome.NO_CODE
    assert f"at most {MOST_CHARS:,}" in garbage.verdict.message
    assert garbage.official is not None
    assert not garbage.official.called
    assert sorted(task for task, _ in examiner.judged) == ["one", "three"]
    assert (run.path / "attempts.jsonl").stat().st_size < 100_000
    assert (run.path / ANSWERS_FILE).stat().st_size < 100_000


def test_text_that_no_file_can_hold_is_replaced(bench, fakes):
    found = bench(fakes.proposer({"two": ["good \ud800"]}), fakes.examiner())
    assert next(a.candidate.code for a in found.attempts if a.task.id == "two") == "good ?"


def test_a_random_task_is_excluded_with_the_reason_and_the_rest_goes_on(bench, run, fakes):
    error = "task two is random by itself: the same input gives different answers"
    found = bench(fakes.proposer({"two": ["odd", "odd"]}), fakes.examiner(answers={"odd": error}), samples=2)
    assert found.excluded == {"two": error}
    assert json.loads((run.path / SUITE_FILE).read_text())["excluded"] == {"two": error}
    assert {a.task.id for a in found.attempts if a.verdict} == {"one", "three"}


def test_a_task_found_not_to_fit_is_skipped_and_stays_counted(bench, fakes):
    error = "the task does not fit into memory: CUDA out of memory"
    found = bench(fakes.proposer({"two": ["odd"]}), fakes.examiner(answers={"odd": error}))
    assert found.suite.skipped == {"two": error}
    assert len(found.suite.tasks) == 3


def test_skipped_tasks_are_neither_proposed_for_nor_judged(run, suite, tasks, fakes):
    proposer, examiner = fakes.proposer(), fakes.examiner()
    known = suite.model_copy(update={"skipped": {"two": "too large"}})
    runner.bench(run, known, tasks, proposer, examiner, RunnerOptions())
    assert proposer.names == ["one", "three"]


def test_a_proposer_that_takes_all_tasks_at_once_is_asked_once(bench, fakes):
    class Many(fakes.proposer):
        batches = 0

        def propose_many(self, tasks):
            self.batches += 1
            for number in range(2):
                for task in tasks:
                    yield Candidate(task_id=task.id, code=f"good {number}", proposer="many")

    proposer = Many()
    found = bench(proposer, fakes.examiner(), samples=2)
    assert (proposer.batches, proposer.names) == (1, [])
    assert sorted((a.task.id, a.sample, a.candidate.code) for a in found.attempts)[:2] == [
        ("one", 0, "good 0"),
        ("one", 1, "good 1"),
    ]
    assert len(found.attempts) == 6


def test_a_batch_that_breaks_costs_what_it_has_not_given(bench, fakes):
    class Many(fakes.proposer):
        def propose_many(self, tasks):
            yield Candidate(task_id="one", code="good", proposer="many")
            raise MemoryError("out of memory")

    found = bench(Many(), fakes.examiner())
    assert {a.task.id: a.error is None for a in found.attempts} == {"one": True, "two": False, "three": False}


def test_a_full_disk_keeps_what_was_judged_and_is_one_clear_error(bench, run, fakes, monkeypatch):
    real = os.write

    def full(descriptor, data):
        if b'"task":{"id":"two"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PrerequisiteError, match="No space left"):
        bench(fakes.proposer(), fakes.examiner(), proposal_workers=1)
    monkeypatch.undo()
    assert [a.task.id for a in run.attempts()] == ["one"]
    assert len(bench(fakes.proposer(), fakes.examiner()).attempts) == 3


def test_a_run_is_answered_screened_and_judged_by_three_calls(bench, run, fakes):
    answers = {"one": ["good", "bad"], "two": ["bad", "slow"], "three": ["officially", "good"]}
    examiner = fakes.examiner()
    found = bench(fakes.proposer(answers), examiner, samples=2, stage=Stage.ANSWER)
    assert (found.attempts, examiner.judged) == ((), [])
    lucky = fakes.verdict(Outcome.REJECTED)
    screening = fakes.examiner(
        answers={"slow": fakes.verdict(Outcome.TIMED_OUT), "officially": lucky}, executed={"officially"}
    )
    proposer = fakes.proposer({})
    found = bench(proposer, screening, samples=2, stage=Stage.SCREEN)
    assert proposer.names == [], "nothing is asked for"
    kept = sorted((one.task.id, one.sample, one.verdict.outcome) for one in found.attempts)
    assert kept == [("one", 1, Outcome.WRONG), ("two", 0, Outcome.WRONG)], "only failures no GPU would change"
    assert all(one.verdict.notes == (NOTE,) for one in found.attempts)
    last = fakes.examiner()
    found = bench(fakes.proposer({}), last, samples=2, stage=Stage.JUDGE)
    assert sorted(last.judged) == [("one", "good"), ("three", "good"), ("three", "officially"), ("two", "slow")]
    assert len(found.attempts) == 6


def test_a_run_in_stages_counts_whoever_has_no_answer_as_one_in_one_go_does(bench, fakes, tmp_path):
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "one.py").write_text("good")
    for proposer in (FilesProposer(tmp_path / "answers"), fakes.proposer({"two": [], "three": []})):
        with Store(tmp_path / "runs").create("bench", {}) as whole, Store(tmp_path / "runs").create("bench", {}) as run:
            empty = {"": fakes.verdict(Outcome.NO_CODE)}
            expected = bench(proposer, fakes.examiner(answers=empty), on=whole, samples=2)
            bench(proposer, fakes.examiner(), on=run, samples=2, stage=Stage.ANSWER)
            found = bench(None, fakes.examiner(answers=empty), on=run, samples=2, stage=Stage.JUDGE)
        outcomes = [sorted((a.task.id, a.sample, a.verdict.outcome) for a in one.attempts) for one in (found, expected)]
        assert outcomes[0] == outcomes[1]
        assert ("two", 0, Outcome.NO_CODE) in outcomes[0]


def test_answers_of_a_task_are_judged_one_after_another(bench, fakes):
    proposer = fakes.proposer(default=["good", "bad", "fine"])
    proposer.propose_many = lambda tasks: (
        Candidate(task_id=task.id, code=code, proposer="fake") for code in ("good", "bad", "fine") for task in tasks
    )
    bench(proposer, fakes.examiner(), samples=3, stage=Stage.ANSWER)
    examiner = fakes.examiner()
    bench(fakes.proposer({}), examiner, samples=3, stage=Stage.JUDGE)
    assert [task for task, _ in examiner.judged] == ["one"] * 3 + ["two"] * 3 + ["three"] * 3


def test_a_proposer_that_fails_is_asked_again_by_the_next_call(bench, fakes):
    found = bench(fakes.proposer({"two": [RuntimeError("down")]}), fakes.examiner(), stage=Stage.ANSWER)
    assert [(one.task.id, one.verdict) for one in found.attempts] == [("two", None)]
    proposer = fakes.proposer()
    found = bench(proposer, fakes.examiner())
    assert proposer.names == ["two"]
    assert sum(one.verdict is not None for one in found.attempts) == 3


@pytest.mark.parametrize(
    ("outcome", "message", "kept"),
    [
        (Outcome.RUNTIME_ERROR, "raised in forward: AttributeError: no tl.norm", True),
        (Outcome.RUNTIME_ERROR, "Triton's interpreter cannot run this kernel (...)", False),
        (Outcome.RUNTIME_ERROR, "line 3: out of memory: ...", False),
        (Outcome.CRASHED, "crashed with signal 11", False),
        (Outcome.TIMED_OUT, "ran past its deadline", False),
        (Outcome.CORRECT, "correct", False),
        (Outcome.SUSPECT, "suspect", False),
    ],
)
def test_screening_keeps_what_no_gpu_would_change(fakes, tasks, outcome, message, kept):
    verdict = fakes.verdict(outcome, message=message)
    job = Job(0, tasks[0], Candidate(task_id="one", code="", proposer="fake"))
    official = Official(called=False, executed=False)
    assert (screened(Examined(job, verdict, official)) is not None) is kept
    assert screened(Examined(job, verdict, None)) is None, "what the suite would say is not known"
    assert screened(Examined(job, None, official, "the judge broke")) is None
