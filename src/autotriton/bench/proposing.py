"""Draws a proposer's answers ahead of the judge, in threads: several tasks at once where the proposer works in child
processes or on another machine, all tasks in one go where it offers `propose_many`.

Must stay true: a proposer that raises costs the samples it has not given, never another task's.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autotriton.bench.answers import Answer, Shelf, answer, failure
from autotriton.errors import AutoTritonError, ProposerError
from autotriton.propose import Proposer
from autotriton.types import Candidate, Task


@dataclass(frozen=True)
class Missing:
    """So many samples of a task will not come: the proposer has no more."""

    task: Task
    count: int


Item = Answer | Missing


def name_of(proposer: Proposer) -> str:
    given = getattr(proposer, "name", None)
    return str(given) if given else type(proposer).__name__.removesuffix("Proposer").lower() or "proposer"


def on_this_gpu(proposer: Proposer | None) -> bool:
    """A model of this machine: it would share the GPU with whatever is timed meanwhile."""
    from autotriton.propose.model import ModelProposer

    return isinstance(proposer, ModelProposer)


def threads_for(proposer: Proposer, samples: int) -> int:
    """How many tasks to ask it about at once."""
    from autotriton.propose.compiler import CompilerProposer
    from autotriton.propose.endpoint import EndpointProposer

    if isinstance(proposer, CompilerProposer):  # a child process per task; the other cores are for the judge
        return max(1, (os.cpu_count() or 1) // 2)
    if isinstance(proposer, EndpointProposer):  # it asks for a task's samples at once already
        return max(1, proposer.settings.concurrency // samples)
    return 1


def final(proposer: Proposer, error: Exception) -> bool:
    """A compiler that cannot express the task and a folder without its answer have answered: with nothing. A server
    that is down has not, and may be asked again.
    """
    from autotriton.propose.compiler import CompilerProposer
    from autotriton.propose.files import FilesProposer

    return isinstance(proposer, CompilerProposer | FilesProposer) and isinstance(error, ProposerError)


class Proposing:
    """Iterate over it for answers as they come; `close` when no more are wanted."""

    def __init__(
        self,
        proposer: Proposer,
        wanted: Mapping[str, tuple[Task, frozenset[int]]],
        shelf: Shelf,
        *,
        samples: int,
        threads: int,
        came: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`wanted`: the samples still missing of each task. `came` is told, in any thread, of answers as they come."""
        self.proposer, self.samples, self.shelf = proposer, samples, shelf
        self.name = name_of(proposer)
        self._wanted, self._came = wanted, came
        self._items: queue.SimpleQueue[Item | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._tasks = iter([task for task, missing in wanted.values() if missing])
        self._drawing = threading.Lock()
        many = hasattr(proposer, "propose_many")
        target = self._all_at_once if many else self._one_by_one
        self._threads = [
            threading.Thread(target=self._guarded, args=(target,), daemon=True, name=f"propose-{number}")
            for number in range(1 if many else max(1, threads))
        ]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[Item]:
        working = len(self._threads)
        while working:
            item = self._items.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                working -= 1
            else:
                yield item

    def wait(self) -> None:
        """Until every answer has come."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.5)  # with a pause, so that an interrupt is heard

    def close(self) -> None:
        self._stop.set()

    def _guarded(self, target: Callable[[], None]) -> None:
        try:
            target()
        except AutoTritonError as error:  # the answers' file: nothing more can be kept
            self._items.put(error)
        self._items.put(None)

    def _one_by_one(self) -> None:
        while not self._stop.is_set():
            with self._drawing:
                task = next(self._tasks, None)
            if task is None:
                return
            self._of(task)

    def _of(self, task: Task) -> None:
        missing = self._wanted[task.id][1]
        given = 0
        try:
            for candidate in islice(self.proposer.propose(task, ()), max(missing) + 1):
                self._take(task, given, candidate)
                given += 1
                if self._stop.is_set():
                    return
        except _Unkept as error:
            raise error.cause from None
        except Exception as error:  # noqa: BLE001 - proposers run foreign code: compilers, clients, models
            self._fail(task, given, error)
            return
        self._end_of(task, given)

    def _all_at_once(self) -> None:
        tasks = {task.id: task for task in self._tasks}
        given: Counter[str] = Counter()
        many: Any = self.proposer
        try:
            for candidate in many.propose_many(list(tasks.values())) if tasks else ():
                if self._stop.is_set():
                    return
                if (task := tasks.get(candidate.task_id)) is not None:
                    self._take(task, given[task.id], candidate)
                    given[task.id] += 1
        except _Unkept as error:
            raise error.cause from None
        except Exception as error:  # noqa: BLE001 - as above; each task without its answers says so
            for task in tasks.values():
                if any(sample >= given[task.id] for sample in self._wanted[task.id][1]):
                    self._fail(task, given[task.id], error)
            return
        for task in tasks.values():
            self._end_of(task, given[task.id])

    def _take(self, task: Task, sample: int, candidate: Candidate) -> None:
        if sample not in self._wanted[task.id][1]:
            return
        found = answer(task, sample, candidate)
        try:
            self.shelf.add(found)
        except AutoTritonError as error:
            raise _Unkept(error) from None
        self._put(found, 1)

    def _fail(self, task: Task, given: int, error: Exception) -> None:
        """One record of the failure; what else is missing can be asked for again when the run is resumed."""
        missing = sorted(sample for sample in self._wanted[task.id][1] if sample >= given)
        if missing:
            last = final(self.proposer, error)
            found = failure(task, missing[0], self.name, error, final=last)
            if last:
                self.shelf.add(found)
            self._put(found, 1)
            self._put(Missing(task, len(missing) - 1), len(missing) - 1)

    def _end_of(self, task: Task, given: int) -> None:
        """A proposer without a single answer gave an empty one; one with fewer than asked for has no more."""
        missing = [sample for sample in self._wanted[task.id][1] if sample >= given]
        if given == 0:
            nothing = Answer(task, min(missing), Candidate(task_id=task.id, code="", proposer=self.name))
            self.shelf.add(nothing)
            self._put(nothing, 1)
            missing.remove(nothing.sample)
        if missing:
            self._put(Missing(task, len(missing)), len(missing))

    def _put(self, item: Item, count: int) -> None:
        self._items.put(item)
        self._came(count)


class _Unkept(Exception):
    """An answer that could not be written down; not the proposer's failure."""

    def __init__(self, cause: AutoTritonError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def only_missing(tasks: Sequence[Task], done: set[tuple[str, int]], samples: int) -> dict[str, frozenset[int]]:
    """Sample numbers of each task that are not there yet."""
    every = range(samples)
    return {task.id: frozenset(number for number in every if (task.id, number) not in done) for task in tasks}
