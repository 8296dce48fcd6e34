"""What is known so far in one run of the loop, and the one place where attempts are made and recorded.

Must stay true: every verdict is in the store before the loop goes on, a candidate with a verdict is never judged to the
same depth again, and a judge that broke on one candidate costs that candidate only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autotriton.errors import AutoTritonError, JudgeError, UsageError
from autotriton.loop.progress import Doing, Failed, Judged, Progress
from autotriton.loop.ranking import best
from autotriton.loop.source import Source
from autotriton.types import Attempt, Candidate, Task, Verdict

if TYPE_CHECKING:
    from autotriton.loop.court import Stages
    from autotriton.store import Run

Decide = Callable[[Task, str, "Stages"], Verdict]
TUNED = "+tuned"
"""Ends the proposer's name where the tuner chose the constants."""


class Search:
    """The attempts on one task, those of an earlier, interrupted run included."""

    def __init__(self, task: Task, run: Run | None, progress: Progress) -> None:
        self.task, self.run, self.tell = task, run, progress
        self.attempts = [] if run is None else [a for a in run.attempts() if a.task.hash == task.hash]
        self.failures: list[Failed] = []
        self.verdicts = {a.candidate.id: a.verdict for a in self.attempts if a.verdict is not None}
        """By candidate; the latest, which is the deepest."""
        self.judged = len({a.candidate.id for a in self.attempts if not a.candidate.proposer.endswith(TUNED)})

    @property
    def best(self) -> Attempt | None:
        return best(self.attempts)

    def propose(self, source: Source) -> Candidate | None:
        """The source's next candidate; None when it has no more or failed, which costs only itself."""
        self.tell(Doing(source.name, self.judged + 1, "proposing"))
        try:
            return source.take(self.task, self.attempts, self.verdicts)
        except Exception as error:  # noqa: BLE001 - proposers run foreign code: compilers, clients, models
            self.fail(source.name, error)
            return None

    def consider(self, candidate: Candidate, decide: Decide) -> Attempt:
        """A candidate with its verdict: judged, unless exactly this code has been judged before."""
        if (verdict := self.verdicts.get(candidate.id)) is not None:
            return self._record(candidate, verdict)
        self.judged += 1
        return self.judge(candidate, decide, "judging", self.judged)

    def judge(self, candidate: Candidate, decide: Decide, what: str, number: int) -> Attempt:
        """One attempt, recorded. Raises what befalls every other candidate too: the task's faults, the machine's."""

        def stage(name: str) -> None:
            self.tell(Doing(candidate.proposer, number, what, name))

        try:
            verdict = decide(self.task, candidate.code, stage)
        except UsageError:
            raise
        except AutoTritonError as error:
            attempt = self._record(candidate, None, str(error))
            if isinstance(error, JudgeError):
                return attempt
            raise
        return self._record(candidate, verdict)

    def fail(self, who: str, error: Exception) -> None:
        self.failures.append(Failed(who, error))
        self.tell(self.failures[-1])

    def _record(self, candidate: Candidate, verdict: Verdict | None, error: str | None = None) -> Attempt:
        run_id = self.run.id if self.run is not None else ""
        attempt = Attempt(run_id=run_id, task=self.task, candidate=candidate, verdict=verdict, error=error)
        if self.run is not None:
            self.run.append(attempt)
        self.attempts.append(attempt)
        if verdict is not None:
            self.verdicts[candidate.id] = verdict
        self.tell(Judged(attempt, self.best))
        return attempt
