"""The endpoint proposer against a real OpenAI-compatible server (`transformers serve`) with a real, tiny model, and the
real judge: the first answer is a cheat, the judge says so, the second is a kernel that is accepted.
"""

import importlib.util

import pytest

from autotriton.errors import ProposerError
from autotriton.propose.endpoint import EndpointProposer
from autotriton.tasks.source import load
from autotriton.types import Attempt, Outcome, Tier

pytestmark = [pytest.mark.interp, pytest.mark.slow]
NEEDED = ("openai", "transformers", "fastapi", "uvicorn", "accelerate")
if missing := [package for package in NEEDED if importlib.util.find_spec(package) is None]:
    pytest.skip(f"needs {', '.join(missing)}", allow_module_level=True)


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_a_cheat_is_corrected_after_the_verdict_on_it(server, small_model, examples):
    from autotriton.judge import Judge, JudgeOptions

    task = load(examples / "softmax.py")
    proposer = EndpointProposer(
        server, str(small_model.folder), samples=2, turns=2, max_tokens=64, seed=0, **small_model.settings
    )
    history: list[Attempt] = []
    with Judge(JudgeOptions(timeout_s=60, tier=Tier.INTERPRET, cases=3, late_calls_s=0.0)) as judge:
        while found := list(proposer.propose(task, history)):
            verdicts = {candidate.code: judge.judge(task, candidate.code) for candidate in found}
            history += [
                Attempt(run_id="run", task=task, candidate=candidate, verdict=verdicts[candidate.code])
                for candidate in found
            ]
    assert [attempt.verdict.outcome for attempt in history] == [Outcome.REJECTED] * 2 + [Outcome.CORRECT] * 2
    first, _, last, _ = (attempt.candidate for attempt in history)
    assert (first.code, last.code) == (small_model.cheat, small_model.kernel)
    assert (first.parent_id, last.parent_id) == (None, first.id)
    assert last.completion.startswith("I see: a kernel has to do it.")
    assert last.usage.prompt > first.usage.prompt > 100
    assert 3 <= last.usage.completion <= 64


def test_the_shipped_prompts_reach_the_model_whole(server, small_model, examples):
    task = load(examples / "softmax.py")
    proposer = EndpointProposer(server, str(small_model.folder), samples=1, temperature=0, max_tokens=1)
    [candidate] = proposer.propose(task, [])
    assert candidate.usage.prompt > 5000  # bytes, as the tiny tokenizer counts
    assert candidate.code == ""


def test_a_model_the_server_does_not_have_is_one_clear_line(server, examples):
    with pytest.raises(ProposerError, match=r"refuses the request.*pinned to"):
        list(EndpointProposer(server, "another", samples=1).propose(load(examples / "softmax.py"), []))


def test_a_url_beside_the_api_is_one_clear_line(server, examples):
    with pytest.raises(ProposerError, match=r"HTTP 404"):
        list(EndpointProposer(f"{server}/api", "m", samples=1).propose(load(examples / "softmax.py"), []))
