"""The examiner of script tasks (TritonBench): several candidates at a time, judged by replaying the test's calls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from autotriton.bench.examine import Examined, Job, examined
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
        screening: bool = False,
    ) -> None:
        """`trust_candidate` is test-only: it skips the rules and Triton's duty, to replay a gold as a candidate.
        `screening`: failing the suite's own protocol counts only where the gold passes it on this machine.
        """
        self._screening = screening
        self.workers = workers or max(1, min(os.cpu_count() or 1, 16))
        options = JudgeOptions(
            policy=policy, device=device, timeout_s=timeout_s, trust_candidate=trust_candidate, seed=seed
        )
        self.court = ScriptCourt(options)

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        """One answer per job, as each is ready."""
        return examined(jobs, self._one, self.workers)

    def _one(self, job: Job) -> Examined:
        try:
            found = self.court.judge(job.task, job.candidate.code)
            if self._screening and not found.official.executed and not self.court.gold_passes(job.task):
                return Examined(job, None, error="the suite's own answer does not run on this machine")
        except AutoTritonError as error:
            return Examined(job, None, error=str(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours costs this job its verdict, never the others theirs
            return Examined(job, None, error=f"judge error: {type(error).__name__}: {error}")
        return Examined(job, found.verdict, found.official, found.error)

    def close(self) -> None:
        self.court.close()
