"""The lines of a build folder, stage by stage."""

from __future__ import annotations

from autotriton.data.records import GatheredTask
from autotriton.data.rows import Example
from autotriton.types import Candidate, Record


class Selected(Record):
    """A task that is used, and what for."""

    task: GatheredTask
    side: str
    """`sft`, `rl` or `held_out`."""

    @property
    def key(self) -> str:
        return self.task.task.hash


class Removed(Record):
    """A task or pair that was left out, and why."""

    row: str
    stage: str
    reason: str
    """A short class to count by."""
    detail: str = ""


class Proposal(Record):
    """What one route said about one task: candidates, or why there are none."""

    task_hash: str
    route: str
    candidates: tuple[Candidate, ...] = ()
    failure: str = ""
    """A short class to count by; empty where there are candidates."""
    detail: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.task_hash}:{self.route}"


class Judged(Record):
    """One answer and what the judge said: with the row it became, where it was accepted."""

    task_hash: str
    route: str
    candidate: str
    form: int
    outcome: str
    """An outcome of the judge's, or `unjudged` where it could give none."""
    message: str = ""
    example: Example | None = None

    @property
    def key(self) -> str:
        return answer_key(self.task_hash, self.route, self.candidate, self.form)


def answer_key(task_hash: str, route: str, candidate: str, form: int) -> str:
    return f"{task_hash}:{route}:{candidate}:{form}"
