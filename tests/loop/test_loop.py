"""The loop: who is asked, what is judged, what is recorded, who wins."""

from __future__ import annotations

import pytest

from autotriton.errors import JudgeError, PrerequisiteError, ProposerError, TaskError, UsageError
from autotriton.loop import Budget, Doing, Failed, Judged, OptimizeOptions, optimize
from autotriton.store import Store
from autotriton.types import Outcome


@pytest.fixture
def run(tmp_path):
    with Store(tmp_path / "runs").create("optimize", {}) as run:
        yield run


def budget(candidates):
    return OptimizeOptions(budget=Budget(candidates=candidates))


def outcomes(result):
    return [(a.candidate.code, a.verdict.outcome if a.verdict else None) for a in result.attempts]


def test_accepted_candidate_wins_and_without_a_gpu_that_is_enough(task, fakes):
    court = fakes.court({"b": fakes.verdict()})
    proposer = fakes.proposer([fakes.candidate(code) for code in "abc"])
    result = optimize(task, [proposer], court=court)
    assert result.winner is result.attempts[1]
    assert outcomes(result) == [("a", Outcome.WRONG), ("b", Outcome.CORRECT)]


def test_every_proposer_has_its_say_and_the_best_wins_whoever_wrote_it(task, fakes):
    court = fakes.court({"two": fakes.verdict(launches=2), "one": fakes.verdict(launches=1)})
    proposers = [fakes.proposer([fakes.candidate("two")]), fakes.proposer([fakes.candidate("one")])]
    assert optimize(task, proposers, court=court).winner.candidate.code == "one"


def test_with_a_budget_all_of_it_is_tried(task, fakes):
    court = fakes.court(default=fakes.verdict())
    proposer = fakes.proposer([fakes.candidate(code) for code in "abcdef"])
    result = optimize(task, [proposer], budget(4), court=court)
    assert court.codes("correct") == ["a", "b", "c", "d"]
    assert result.winner.candidate.code == "a"


def test_proposers_take_turns(task, fakes):
    court = fakes.court()
    one, two = (fakes.proposer([fakes.candidate(code) for code in codes]) for codes in ("abc", "xyz"))
    result = optimize(task, [one, two], budget(4), court=court)
    assert court.codes("correct") == ["a", "x", "b", "y"]
    assert result.winner is None


def test_same_code_is_judged_once(task, fakes):
    court = fakes.court()
    proposers = [fakes.proposer([fakes.candidate(code) for code in codes]) for codes in ("aab", "bac")]
    result = optimize(task, proposers, court=court)
    assert sorted(court.codes("correct")) == ["a", "b", "c"]
    assert len(result.attempts) == 3


def test_endless_repetition_ends(task, fakes):
    class Stubborn:
        def propose(self, task, history):
            while True:
                yield fakes.candidate("same", answer=True)

    court = fakes.court()
    result = optimize(task, [Stubborn()], OptimizeOptions(budget=Budget(seconds=60)), court=court)
    assert court.codes("correct") == ["same"]
    assert len(result.attempts) <= 101


class TestRefinement:
    def test_answers_are_refined_with_their_verdicts_in_the_history(self, task, fakes):
        court = fakes.court({"better": fakes.verdict()})
        first, second = fakes.candidate("bad", answer=True), fakes.candidate("better", answer=True)
        model = fakes.proposer([first], [second])
        result = optimize(task, [model], court=court)
        assert [a.verdict.outcome for a in model.histories[1]] == [Outcome.WRONG]
        assert result.winner.candidate == second

    def test_turn_without_anything_new_is_the_last(self, task, fakes):
        answer = fakes.candidate("bad", answer=True)
        model = fakes.proposer([answer], [answer], [fakes.candidate("never asked for", answer=True)])
        result = optimize(task, [model], court=fakes.court())
        assert len(model.histories) == 2
        assert [a.candidate.code for a in result.attempts] == ["bad", "bad"]

    def test_repeated_answer_is_recorded_with_its_tokens_but_judged_once(self, task, fakes, run):
        court = fakes.court()
        model = fakes.proposer([fakes.candidate("bad", answer=True)] * 3)
        result = optimize(task, [model], run=run, court=court)
        assert court.codes("correct") == ["bad"]
        assert [a.candidate.usage.completion for a in run.attempts()] == [2, 2, 2]
        assert all(a.verdict is result.attempts[0].verdict for a in result.attempts)

    def test_refinement_ends_with_the_budget(self, task, fakes):
        model = fakes.proposer(*([fakes.candidate(str(n), answer=True)] for n in range(9)))
        result = optimize(task, [model], budget(3), court=fakes.court())
        assert len(result.attempts) == 3

    def test_compiler_is_asked_once(self, task, fakes):
        proposer = fakes.proposer([fakes.candidate("a")], [fakes.candidate("b")])
        optimize(task, [proposer], court=fakes.court())
        assert len(proposer.histories) == 1


class TestFailures:
    def test_failing_proposer_costs_only_itself(self, task, fakes):
        court = fakes.court({"good": fakes.verdict()})
        broken = fakes.proposer([ProposerError("the endpoint is down")], name="endpoint")
        result = optimize(task, [broken, fakes.proposer([fakes.candidate("good")])], court=court)
        assert result.winner.candidate.code == "good"
        assert [(f.who, f.cause) for f in result.failures] == [("endpoint", "the endpoint is down")]

    def test_candidates_before_the_failure_count(self, task, fakes):
        court = fakes.court({"good": fakes.verdict()})
        proposer = fakes.proposer([fakes.candidate("bad"), fakes.candidate("good"), ProposerError("rate limit")])
        result = optimize(task, [proposer], budget(9), court=court)
        assert result.winner is not None
        assert len(result.failures) == 1

    def test_bug_in_a_proposer_is_its_own_too(self, task, fakes):
        proposers = [fakes.proposer([KeyError("x")], name="odd"), fakes.proposer([fakes.candidate("a")])]
        result = optimize(task, proposers, court=fakes.court())
        assert result.failures[0].cause == "KeyError: 'x'"

    def test_lone_proposers_error_is_the_loops(self, task, fakes):
        error = PrerequisiteError("openai is not installed", hint="pip install openai")
        with pytest.raises(PrerequisiteError) as raised:
            optimize(task, [fakes.proposer([error])], court=fakes.court())
        assert raised.value is error

    def test_when_all_fail_every_cause_is_named(self, task, fakes):
        one = fakes.proposer([ProposerError("no kernel for qr")], name="compiler")
        two = fakes.proposer([OSError("connection\n refused")], name="endpoint:x")
        with pytest.raises(ProposerError) as raised:
            optimize(task, [one, two], court=fakes.court())
        assert "compiler: no kernel for qr; endpoint:x: OSError: connection refused" in str(raised.value)
        assert raised.value.exit_code == 1

    def test_proposer_without_candidates_is_said(self, task, fakes):
        with pytest.raises(ProposerError, match="no proposer had a candidate for task task"):
            optimize(task, [fakes.proposer([])], court=fakes.court())

    def test_no_proposer_is_a_usage_error(self, task, fakes):
        with pytest.raises(UsageError, match="no proposer"):
            optimize(task, [], court=fakes.court())

    def test_judge_that_broke_on_one_candidate_is_recorded_and_the_loop_goes_on(self, task, fakes, run):
        court = fakes.court({"a": JudgeError("worker died"), "b": fakes.verdict()})
        proposer = fakes.proposer([fakes.candidate("a"), fakes.candidate("b")])
        result = optimize(task, [proposer], run=run, court=court)
        assert result.winner.candidate.code == "b"
        assert [(a.verdict is None, a.error) for a in run.attempts()] == [(True, "worker died"), (False, None)]

    def test_judge_that_broke_on_all_of_them_is_an_error(self, task, fakes):
        court = fakes.court(default=JudgeError("worker died"))
        with pytest.raises(JudgeError, match="worker died"):
            optimize(task, [fakes.proposer([fakes.candidate("a")])], court=court)

    @pytest.mark.parametrize("error", [TaskError("random by itself"), PrerequisiteError("too large")])
    def test_what_befalls_every_candidate_ends_the_loop(self, task, fakes, run, error):
        court = fakes.court(default=error)
        with pytest.raises(type(error)):
            optimize(task, [fakes.proposer([fakes.candidate("a"), fakes.candidate("b")])], run=run, court=court)
        assert court.codes("correct") == ["a"]
        assert [a.error for a in run.attempts()] == [str(error)]


class TestStore:
    def test_attempt_is_on_disk_before_the_next_is_proposed(self, task, fakes, run):
        seen = []

        class Watching:
            def propose(self, task, history):
                for code in "abc":
                    seen.append([a.candidate.code for a in run.attempts()])
                    yield fakes.candidate(code)

        optimize(task, [Watching()], run=run, court=fakes.court())
        assert seen == [[], ["a"], ["a", "b"]]

    def test_resumed_run_judges_nothing_twice(self, task, fakes, tmp_path):
        store, config = Store(tmp_path / "store"), {"task": "x"}

        class Killed(BaseException):
            pass

        class Fragile(fakes.court):
            def correct(self, task, code, progress):
                if code == "c":
                    raise Killed
                return super().correct(task, code, progress)

        with store.create("optimize", config) as first, pytest.raises(Killed):
            optimize(task, [fakes.proposer([fakes.candidate(c) for c in "abcd"])], run=first, court=Fragile())
        court = fakes.court({"d": fakes.verdict()})
        proposer = fakes.proposer([fakes.candidate(c) for c in "abcd"])
        with store.resume(first.id, config) as again:
            result = optimize(task, [proposer], run=again, court=court)
        assert [a.candidate.code for a in proposer.histories[0]] == ["a", "b"]
        assert court.codes("correct") == ["c", "d"]
        assert [a.candidate.code for a in result.attempts] == ["a", "b", "c", "d"]
        assert result.winner.candidate.code == "d"

    def test_resumed_run_counts_what_was_judged_before(self, task, fakes, run):
        optimize(task, [fakes.proposer([fakes.candidate(c) for c in "ab"])], budget(2), run=run, court=fakes.court())
        court = fakes.court()
        optimize(task, [fakes.proposer([fakes.candidate(c) for c in "abcdef"])], budget(3), run=run, court=court)
        assert court.codes("correct") == ["c"]

    def test_candidate_the_judge_broke_on_is_tried_again(self, task, fakes, run):
        broken = fakes.court({"a": JudgeError("x"), "b": fakes.verdict(Outcome.WRONG)})
        proposed = [fakes.candidate("a"), fakes.candidate("b")]
        optimize(task, [fakes.proposer(proposed)], run=run, court=broken)
        court = fakes.court({"a": fakes.verdict()})
        assert optimize(task, [fakes.proposer(proposed)], run=run, court=court).winner.candidate.code == "a"
        assert court.codes("correct") == ["a"]

    def test_finished_run_resumed_asks_nobody(self, task, fakes, run):
        optimize(task, [fakes.proposer([fakes.candidate("a")])], run=run, court=fakes.court({"a": fakes.verdict()}))
        court, proposer = fakes.court(), fakes.proposer([fakes.candidate("z")])
        assert optimize(task, [proposer], run=run, court=court).winner.candidate.code == "a"
        assert proposer.histories == []


def test_whoever_watches_is_told_everything(task, fakes):
    events = []
    court = fakes.court({"a": fakes.verdict()})
    proposers = [fakes.proposer([ProposerError("down")], name="endpoint"), fakes.proposer([fakes.candidate("a")])]
    result = optimize(task, proposers, progress=events.append, court=court)
    assert [type(event) for event in events] == [Doing, Failed, Doing, Doing, Judged]
    assert (events[3].what, events[3].detail, events[3].number) == ("judging", "cases", 1)
    assert events[4].best is result.winner
