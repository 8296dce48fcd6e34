"""Stand-ins for the judge and for proposers, so that the loop is tested on its own and at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from autotriton.errors import AutoTritonError
from autotriton.types import Attempt, Candidate, Kernel, Outcome, Policy, Task, Tier, Timing, TokenUsage, Verdict

TASK = Task(id="task", source="source")


def verdict(
    outcome: Outcome = Outcome.CORRECT, *, ms: float | None = None, launches: int = 1, spills: int = 0
) -> Verdict:
    timing = None if ms is None else Timing(median_ms=ms, p20_ms=ms, p80_ms=ms, samples=9, method="fake")
    kernel = Kernel(name="kernel", launches=launches, spills=spills)
    tier = Tier.RUN if ms is None else Tier.TIME
    return Verdict(
        outcome=outcome, message=f"{outcome}", policy=Policy.STRICT, tier=tier, kernels=(kernel,), timing=timing
    )


def candidate(code: str, *, proposer: str = "fake", answer: bool = False, **more: object) -> Candidate:
    usage = TokenUsage(prompt=1, completion=2) if answer else None
    return Candidate(
        task_id=TASK.id,
        code=code,
        proposer=proposer,
        completion=f"```{code}```" if answer else None,
        usage=usage,
        **more,
    )


Answer = Verdict | AutoTritonError


@dataclass
class FakeCourt:
    """Answers by code: a verdict, an error to be raised, or what `default` says. Remembers what it was asked."""

    answers: dict[str, Answer] = field(default_factory=dict)
    default: Answer = field(default_factory=lambda: verdict(Outcome.WRONG))
    times: bool = False
    milliseconds: dict[str, float] = field(default_factory=dict)
    """Of timed runs, by code; a code that is not there is wrong when the clock runs."""
    asked: list[tuple[str, str]] = field(default_factory=list)

    def look(self, task: Task) -> None:
        self.asked.append(("look", ""))

    def correct(self, task: Task, code: str, progress: Callable[[str], None]) -> Verdict:
        progress("cases")
        return self._answer("correct", code, self.answers.get(code, self.default))

    def roughly(self, task: Task, code: str, progress: Callable[[str], None]) -> Verdict:
        return self._timed("roughly", code)

    def timed(self, task: Task, code: str, progress: Callable[[str], None]) -> Verdict:
        return self._timed("timed", code)

    def rest(self, task: Task) -> None:
        self.asked.append(("rest", ""))

    def codes(self, how: str) -> list[str]:
        return [code for kind, code in self.asked if kind == how]

    def _timed(self, how: str, code: str) -> Verdict:
        slow = code not in self.milliseconds
        return self._answer(how, code, verdict(Outcome.SUSPECT) if slow else verdict(ms=self.milliseconds[code]))

    def _answer(self, how: str, code: str, answer: Answer) -> Verdict:
        self.asked.append((how, code))
        if isinstance(answer, AutoTritonError):
            raise answer
        return answer


class FakeProposer:
    """Hands out its candidates, one turn after another; an exception among them is raised. Remembers every history."""

    def __init__(self, *turns: Sequence[Candidate | Exception], name: str = "fake") -> None:
        self.turns, self.name = list(turns), name
        self.histories: list[tuple[Attempt, ...]] = []

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        self.histories.append(tuple(history))
        for item in self.turns[len(self.histories) - 1] if len(self.histories) <= len(self.turns) else ():
            if isinstance(item, Exception):
                raise item
            yield item


@pytest.fixture
def task() -> Task:
    return TASK


@pytest.fixture
def fakes() -> SimpleNamespace:
    """Tests cannot import from here, so they are handed the names."""
    return SimpleNamespace(court=FakeCourt, proposer=FakeProposer, candidate=candidate, verdict=verdict)
