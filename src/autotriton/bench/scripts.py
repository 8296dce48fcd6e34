"""The examiner of script tasks (TritonBench): several candidates at a time, judged by replaying the test's calls."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from autotriton.bench.examine import Examined, Job
from autotriton.errors import AutoTritonError
from autotriton.judge.options import JudgeOptions
from autotriton.judge.scripts.court import ScriptCourt
from autotriton.types import Policy

DEFAULT_TIMEOUT_S = 120.0


class ScriptExaminer:
    """Streams verdicts and official results. One bad candidate never costs another its verdict."""

    def __init__(
        self,
        policy: Policy = Policy.STRICT,
        device: str = "auto",
        workers: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        trust_candidate: bool = False,
        seed: int | None = None,
    ) -> None:
        """`trust_candidate` is test-only: it skips the rules and Triton's duty, to replay a gold as a candidate."""
        self.workers = workers or max(1, min(os.cpu_count() or 1, 16))
        options = JudgeOptions(
            policy=policy, device=device, timeout_s=timeout_s, trust_candidate=trust_candidate, seed=seed
        )
        self.court = ScriptCourt(options)

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        """One answer per job, as each is ready; at most twice as many jobs as workers are drawn ahead."""
        results: queue.SimpleQueue[Examined] = queue.SimpleQueue()
        room = threading.Semaphore(2 * self.workers)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="scripts") as pool:
            started = finished = 0
            try:
                for job in jobs:
                    while not room.acquire(blocking=False):
                        yield results.get()
                        finished += 1
                        room.release()
                    pool.submit(self._put, job, results)
                    started += 1
                while finished < started:
                    yield results.get()
                    finished += 1
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _put(self, job: Job, results: queue.SimpleQueue[Examined]) -> None:
        results.put(self._one(job))

    def _one(self, job: Job) -> Examined:
        try:
            found = self.court.judge(job.task, job.candidate.code)
        except AutoTritonError as error:
            return Examined(job, None, error=str(error))
        except BaseException as error:  # noqa: BLE001 - a bug of ours costs this job its verdict, never the others theirs
            return Examined(job, None, error=f"judge error: {type(error).__name__}: {error}")
        return Examined(job, found.verdict, found.official, found.error)

    def close(self) -> None:
        self.court.close()
