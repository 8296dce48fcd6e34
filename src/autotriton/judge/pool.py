"""Many candidates at once: N in, N out, whatever they do.

Rules first and in the parent, so most bad candidates never cost a process; duplicates are judged once; references are
shared; correctness runs in parallel, one process per candidate; timing has the GPU to itself in slices (`floor.py`).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from autotriton.errors import AutoTritonError, TaskError
from autotriton.judge.judge import Judge
from autotriton.judge.options import JudgeOptions
from autotriton.types import Outcome, Task, Verdict

Job = tuple[Task, str]
_MEMORY = "out of memory"
AGAIN = "judged again with the GPU to itself, as neighbours had its memory or held it up"


@dataclass(frozen=True)
class Judgement:
    """One candidate's result: a verdict, or why there is none. Unscored is never zero."""

    index: int
    task: Task
    code: str
    verdict: Verdict | None
    error: str | None = None


class GpuLock:
    """Judgements share the GPU; one that needs all of its memory has it alone, from beginning to end.

    Nobody waits for one who wants it alone before that one was patient: it is a second try, which can wait until the
    others of its batch are done, while all of them would stand still until the longest of those under way is. Timing
    needs none of this: see `floor.py`.
    """

    def __init__(self, patience_s: float = 300.0) -> None:
        self._patience_s = patience_s
        self._condition = threading.Condition()
        self._sharing, self._exclusive = 0, False
        self._waiting: list[float] = []
        """Since when each of those who want it alone waits."""

    def share(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._exclusive and not self._overdue())
            self._sharing += 1

    def _overdue(self) -> bool:
        return bool(self._waiting) and time.monotonic() - self._waiting[0] > self._patience_s

    def unshare(self) -> None:
        with self._condition:
            self._sharing -= 1
            self._condition.notify_all()

    def seize(self) -> None:
        with self._condition:
            since = time.monotonic()
            self._waiting.append(since)
            self._condition.wait_for(lambda: not self._exclusive and self._sharing == 0)
            self._waiting.remove(since)
            self._exclusive = True

    def release(self) -> None:
        with self._condition:
            self._exclusive = False
            self._condition.notify_all()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """For a thread that shares: wait for something else without keeping others from having the GPU alone.

        Whoever waits for memory must hold no place here: the one who has the memory may be waiting to be alone.
        """
        self.unshare()
        try:
            yield
        finally:
            self.share()

    @contextmanager
    def aside_of_one(self) -> Iterator[None]:
        """The same for a thread that has seized the GPU."""
        self.release()
        try:
            yield
        finally:
            self.seize()


class Beside:
    """Verdicts beside other threads on one GPU; where neighbours may have spoilt one, another one alone."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.lock = GpuLock()

    def verdict(self, judge: Judge, task: Task, code: str) -> Verdict:
        """Called by each of the workers, with the same judge or with judges that share their processes."""
        processes = judge.processes
        self.lock.share()
        try:
            stuck_before = processes.stuck()
            total_before = processes.stuck_total
            verdict: Verdict | None = judge.judge(task, code, aside=self.lock.aside)
        except TaskError as error:
            if self.workers == 1 or _MEMORY not in str(error):
                raise
            verdict = None  # what it needs besides its inputs is not known before it has run
        finally:
            self.lock.unshare()
        if verdict is None:
            return self._alone(judge, lambda: judge.judge(task, code, aside=self.lock.aside_of_one, whole_gpu=True))
        others_stuck = stuck_before or processes.stuck_total - total_before > 1  # its own process may be one
        # Neighbours may have taken the memory, or held the GPU with an endless kernel: only alone does that count.
        crowded = verdict.outcome is Outcome.RUNTIME_ERROR and _MEMORY in verdict.message
        delayed = verdict.outcome is Outcome.TIMED_OUT and others_stuck
        if self.workers == 1 or not (crowded or delayed):
            return verdict
        return self._alone(judge, lambda: judge.judge(task, code, aside=self.lock.aside_of_one))

    def _alone(self, judge: Judge, run: Callable[[], Verdict]) -> Verdict:
        self.lock.seize()
        try:
            judge.processes.wait_until_free()
            verdict = run()
            return verdict.model_copy(update={"notes": (*verdict.notes, AGAIN)})
        finally:
            self.lock.release()


def judge_many(
    jobs: Iterable[Job], options: JudgeOptions | None = None, *, workers: int | None = None, judge: Judge | None = None
) -> Iterator[Judgement]:
    """Verdicts as they come, each with the index of its job. Exactly one per job."""
    given = list(jobs)
    owned = judge is None
    judge = judge or Judge(options)
    count = workers or max(1, min(os.cpu_count() or 1, 16))
    try:
        yield from _Batch(judge, given, count).run()
    finally:
        if owned:
            judge.close()


class _Batch:
    def __init__(self, judge: Judge, jobs: list[Job], workers: int) -> None:
        self.judge, self.jobs, self.workers = judge, jobs, workers
        self.beside = Beside(workers)
        self.results: queue.SimpleQueue[Judgement] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._left = Counter(task.hash for task, _ in jobs)

    def run(self) -> Iterator[Judgement]:
        groups: dict[tuple[str, str], list[int]] = {}
        for index, (task, code) in enumerate(self.jobs):
            groups.setdefault((task.hash, code), []).append(index)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="judge") as pool:
            try:
                for indices in groups.values():
                    pool.submit(self._one, indices)
                for _ in self.jobs:
                    yield self.results.get()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, indices: list[int]) -> None:
        task, code = self.jobs[indices[0]]
        verdict, error = None, None
        try:
            verdict = self.beside.verdict(self.judge, task, code)
        except AutoTritonError as failure:
            error = str(failure)
        except BaseException as failure:  # noqa: BLE001 - a bug of ours costs this job its verdict, never the others theirs
            error = f"judge error: {type(failure).__name__}: {failure}"
        self._finished(task, len(indices))
        for index in indices:
            self.results.put(Judgement(index, task, code, verdict, error))

    def _finished(self, task: Task, count: int) -> None:
        """A task nobody needs any more gives its reference's memory back."""
        with self._counting:
            self._left[task.hash] -= count
            done = self._left[task.hash] == 0
        if done:
            self.judge.processes.references.forget(task)
