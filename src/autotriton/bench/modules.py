"""Judges answers to KernelBench-style tasks: the judge's verdict, and what the suite's own protocol would have said.

Must stay true: one answer per job whatever a candidate does, and equal programs for a task are judged once. Correctness
runs beside other candidates, timing alone. A task that proves little is judged all the same, and marked.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace

from autotriton.bench import memory, official
from autotriton.bench.examine import Examined, Job, examined
from autotriton.errors import AutoTritonError
from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.pool import Beside
from autotriton.judge.processes import Processes
from autotriton.types import Official, Policy, Task, Tier, Verdict

_MOST_WORKERS = 16
Decision = tuple[Verdict, Official | None]


class ModuleExaminer:
    """The judge behind the runner's `Examiner`. Several workers, one GPU."""

    def __init__(
        self,
        options: JudgeOptions,
        *,
        workers: int | None = None,
        samples: int = 1,
        memory_bytes: int | None = None,
    ) -> None:
        """`samples`: answers per task, after which its reference is not needed. `memory_bytes`: use no more of the
        GPU's memory at once.
        """
        self.workers = workers or max(1, min(os.cpu_count() or 1, _MOST_WORKERS))
        self._samples = samples
        processes = Processes(options.sandbox, gpu_memory_bytes=memory_bytes)
        options = replace(options, allow_degenerate=True)
        self._judge = Judge(options, processes=processes)
        tier = Tier.RUN if options.tier is Tier.TIME else options.tier
        paper = replace(options, policy=Policy.PAPER, tier=tier)
        self._paper = Judge(paper, processes=processes, seed=self._judge.seed)
        self._beside = Beside(self.workers)
        self._known: dict[tuple[str, str], Future[Decision]] = {}
        self._seen: Counter[str] = Counter()
        self._mutex = threading.Lock()

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        """One answer per job, as each is ready."""
        return examined(jobs, self._one, self.workers)

    def too_large(self, tasks: Iterable[Task], limit_bytes: int | None) -> dict[str, str]:
        """Tasks that do not fit into that much GPU memory; None: as much as the GPU has. Nothing without either."""
        if limit_bytes is None:
            on_gpu = self._judge.processes.device(self._judge.options.device) == "cuda"
            gpu = self._judge.processes.gpu() if on_gpu else None
            if gpu is None:
                return {}
            limit_bytes = gpu.memory_bytes
        return memory.too_large(
            tasks, limit_bytes, lambda task: memory.look(self._judge.processes, task), workers=self.workers
        )

    def close(self) -> None:
        self._judge.close()

    def _one(self, job: Job) -> Examined:
        try:
            verdict, found = self._decided(job.task, job.candidate.code)
            return Examined(job, verdict, found)
        except AutoTritonError as error:
            return Examined(job, None, error=str(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours costs this job its verdict, never the others theirs
            return Examined(job, None, error=f"judge error: {type(error).__name__}: {error}")
        finally:
            self._finished(job.task)

    def _decided(self, task: Task, code: str) -> Decision:
        """Equal programs wait for the first of them; a judge that broke on it breaks on none of the others."""
        key = (task.hash, code)
        with self._mutex:
            known = self._known.get(key)
            mine: Future[Decision] = Future()
            if known is None:
                self._known[key] = mine
        if known is not None:
            with contextlib.suppress(Exception):
                return known.result()
            return self._decide(task, code)
        try:
            mine.set_result(self._decide(task, code))
        except BaseException as error:
            with self._mutex:
                del self._known[key]
            mine.set_exception(error)
            raise
        return mine.result()

    def _decide(self, task: Task, code: str) -> Decision:
        verdict = self._beside.verdict(self._judge, task, code)
        if not official.undecided(verdict) or verdict.policy is Policy.PAPER:
            return verdict, official.official(verdict)
        if self._judge.options.tier is Tier.RULES:
            return verdict, None
        try:
            return verdict, official.official(self._beside.verdict(self._paper, task, code))
        except AutoTritonError:
            return verdict, None  # the verdict stands; what the suite would say is not known

    def _finished(self, task: Task) -> None:
        """A task that has had all its answers gives its reference's memory back."""
        with self._mutex:
            self._seen[task.hash] += 1
            done = self._seen[task.hash] >= self._samples
        if done:
            self._judge.processes.references.forget(task)
