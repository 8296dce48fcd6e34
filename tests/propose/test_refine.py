"""Which questions come next: best of n over turns."""

import pytest

from autotriton.propose import refine
from autotriton.propose.prompt import Prompts
from autotriton.propose.settings import Settings
from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, TokenUsage, Verdict

TASK = Task(id="double", source="class Model:\n    pass\n")
NAME = "endpoint:http://here/v1#m"
PROMPTS = Prompts()


def attempt(
    code: str,
    parent: str | None = None,
    outcome: Outcome | None = Outcome.WRONG,
    proposer: str = NAME,
    task: Task = TASK,
) -> Attempt:
    verdict = outcome and Verdict(outcome=outcome, message=f"about {code}", policy=Policy.STRICT, tier=Tier.RUN)
    candidate = Candidate(task_id=task.id, code=code, proposer=proposer, parent_id=parent)
    return Attempt(run_id="run", task=task, candidate=candidate, verdict=verdict, error=None if verdict else "broke")


def asks(history: list[Attempt], **settings: object) -> list[refine.Ask]:
    return refine.asks(TASK, history, NAME, Settings.model_validate(settings), PROMPTS)


def test_at_first_every_sample_gets_the_same_question_with_its_own_seed():
    found = asks([], samples=3, seed=10)
    assert [ask.seed for ask in found] == [10, 11, 12]
    assert {ask.prompt for ask in found} == {PROMPTS.rewrite(TASK)}
    assert {ask.parent_id for ask in found} == {None}


def test_without_a_seed_none_is_sent():
    assert {ask.seed for ask in asks([], samples=2)} == {None}


def test_every_failed_sample_is_refined_with_its_own_verdict():
    first, second = attempt("one"), attempt("two", outcome=Outcome.REJECTED)
    found = asks([first, second], samples=2, turns=2, seed=0)
    assert [ask.parent_id for ask in found] == [first.candidate.id, second.candidate.id]
    assert "about one" in found[0].prompt
    assert "about two" in found[1].prompt
    assert [ask.seed for ask in found] == [2, 3]


def test_a_chain_ends_with_its_last_turn():
    first = attempt("one")
    second = attempt("two", parent=first.candidate.id)
    assert [ask.parent_id for ask in asks([first, second], samples=1, turns=3)] == [second.candidate.id]
    assert asks([first, second], samples=1, turns=2) == []
    assert asks([first], samples=1, turns=1) == []


def test_nothing_is_asked_once_an_attempt_is_accepted():
    assert asks([attempt("one"), attempt("two", outcome=Outcome.CORRECT)], samples=4) == []


def test_samples_an_interrupted_run_did_not_get_are_asked_for():
    found = asks([attempt("one")], samples=3, turns=1)
    assert [ask.parent_id for ask in found] == [None, None]


def test_attempts_of_others_and_other_tasks_do_not_count():
    other = Task(id="other", source="")
    history = [attempt("one", proposer="compiler", outcome=Outcome.CORRECT), attempt("two", task=other)]
    assert len(asks(history, samples=2)) == 2


def test_what_the_judge_could_not_judge_is_not_refined():
    assert asks([attempt("one", outcome=None)], samples=1, turns=3) == []


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_answers_that_are_all_equal_end_after_their_turns_too(samples):
    history: list[Attempt] = []
    for turn in range(4):
        found = asks(history, samples=samples, turns=4)
        assert len(found) == samples, f"turn {turn}"
        history += [attempt("", parent=ask.parent_id, outcome=Outcome.NO_CODE) for ask in found]
    assert asks(history, samples=samples, turns=4) == []


def test_an_answer_becomes_a_candidate_with_all_it_came_with():
    ask = refine.Ask("prompt", "parent", 1)
    answer = "Sure:\n```python\nclass ModelNew:\n    pass\n```\n"
    found = refine.candidate(TASK, NAME, ask, answer, TokenUsage(prompt=3, completion=4))
    assert found.code == "class ModelNew:\n    pass\n"
    assert (found.completion, found.parent_id, found.proposer) == (answer, "parent", NAME)
    assert found.usage == TokenUsage(prompt=3, completion=4)


def test_an_answer_that_is_no_unicode_can_be_stored_all_the_same():
    found = refine.candidate(TASK, NAME, refine.Ask("", None, None), "```\nx = '\ud800'\n```", None)
    assert found.code == "x = '?'\n"
    assert Candidate.model_validate_json(found.model_dump_json()) == found
    assert found.id
