"""What the runner asks of whoever judges a suite's candidates: the judge's pool for modules, a harness for scripts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
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


def examined(jobs: Iterable[Job], one: Callable[[Job], Examined], workers: int) -> Iterator[Examined]:
    """The answers of `one`, as each is ready, from several threads that draw the jobs themselves.

    After an interrupt nobody waits for what a candidate is still doing: whoever owns its process ends it.
    """
    results: queue.SimpleQueue[Examined | BaseException | None] = queue.SimpleQueue()
    stream, drawing, stop = iter(jobs), threading.Lock(), threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                with drawing:
                    job = next(stream, None)
                if job is None:
                    break
                results.put(one(job))
        except BaseException as error:  # noqa: BLE001 - whatever the caller's iterable raises is the caller's
            results.put(error)
        results.put(None)

    for number in range(workers):
        threading.Thread(target=work, daemon=True, name=f"examine-{number}").start()
    working = workers
    try:
        while working:
            found = results.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                working -= 1
            else:
                yield found
    finally:
        stop.set()
