"""Stand-ins for examiners and proposers, so that the runner is tested on its own and at once."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from autotriton.bench.examine import Examined, Job
from autotriton.bench.records import Suite, SuiteTask
from autotriton.types import Attempt, Candidate, Official, Outcome, Policy, Task, Tier, Verdict


def verdict(outcome: Outcome = Outcome.CORRECT, **more: object) -> Verdict:
    known = {"message": str(outcome), "policy": Policy.STRICT, "tier": Tier.RUN, **more}
    return Verdict.model_validate({"outcome": outcome, **known})


@dataclass
class FakeExaminer:
    """Accepts whatever holds `good`; an exception or an error text by code. Remembers what it judged."""

    answers: dict[str, Verdict | str | BaseException] = field(default_factory=dict)
    judged: list[tuple[str, str]] = field(default_factory=list)
    closed: bool = False

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        for job in jobs:
            code = job.candidate.code
            self.judged.append((job.task.id, code))
            found = self.answers.get(code) or verdict(Outcome.CORRECT if "good" in code else Outcome.WRONG)
            if isinstance(found, BaseException):
                raise found
            if isinstance(found, str):
                yield Examined(job, None, error=found)
            else:
                yield Examined(job, found, Official(called=True, executed=found.accepted))

    def close(self) -> None:
        self.closed = True


class FakeProposer:
    """Answers by task: texts, or an exception to be raised among them. Remembers which tasks it was asked about."""

    name = "fake"

    def __init__(self, answers: dict[str, Sequence[str | Exception]] | None = None, default: Sequence[str] = ("good",)):
        self.answers, self.default = answers or {}, default
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        self.asked.put(task.id)
        for text in self.answers.get(task.id, self.default):
            if isinstance(text, Exception):
                raise text
            yield Candidate(task_id=task.id, code=text, proposer=self.name, completion=f"```{text}```")

    @property
    def names(self) -> list[str]:
        return sorted(self.asked.get() for _ in range(self.asked.qsize()))


@pytest.fixture
def tasks() -> list[Task]:
    return [Task(id=name, source=f"# {name}", suite="tasks@v") for name in ("one", "two", "three")]


@pytest.fixture
def suite(tasks: list[Task]) -> Suite:
    return Suite(name="tasks", version="v", tasks=tuple(SuiteTask(id=task.id) for task in tasks))


@pytest.fixture
def fakes() -> SimpleNamespace:
    """Tests cannot import from here, so they are handed the names."""
    return SimpleNamespace(examiner=FakeExaminer, proposer=FakeProposer, verdict=verdict)


@pytest.fixture
def make() -> Callable[..., Verdict]:
    return verdict
