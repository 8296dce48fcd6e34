"""What the runner asks of whoever judges a suite's candidates: the judge's pool for modules, a harness for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autotriton.types import Candidate, Official, Task, Verdict


@dataclass(frozen=True)
class Job:
    """One answer to be judged."""

    number: int
    """The caller's own; comes back with the answer."""
    task: Task
    candidate: Candidate


@dataclass(frozen=True)
class Examined:
    """What became of one job. `verdict` is None where the judge broke; `error` then says how."""

    job: Job
    verdict: Verdict | None
    official: Official | None = None
    error: str | None = None


class Examiner(Protocol):
    """Judges answers, several at a time."""

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        """One answer per job, as each is ready, in any order; `jobs` is drawn from lazily."""
        ...

    def close(self) -> None:
        """Ends every process it started."""
        ...
