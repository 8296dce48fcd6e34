"""What became of every sample of every task: the one table all counting reads.

Must stay true: a task of the suite appears once whether or not it was answered; a missing sample is a failure; a sample
the judge or the proposer broke on is unscored, never a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotriton.bench.answers import PROPOSER_FAILED
from autotriton.bench.records import BenchRun, Suite, SuiteTask
from autotriton.errors import UsageError
from autotriton.types import Attempt, Outcome

RAN = frozenset({Outcome.WRONG, Outcome.NO_WORK, Outcome.SUSPECT, Outcome.CORRECT})
"""Outcomes of candidates that loaded and ran to an answer."""


@dataclass(frozen=True)
class Row:
    """One task and its samples."""

    task: SuiteTask
    samples: int
    """How many answers were asked for; as many as there are where the others are not known to be failures."""
    attempts: tuple[Attempt, ...]
    """By sample; the last judged one where a sample was tried again."""
    excluded: bool

    def scored(self, claim: Callable[[Attempt], bool | None]) -> tuple[int, int]:
        """(samples for which `claim` holds, samples it can be said of); a claim of None is unscored."""
        said = [claim(attempt) for attempt in self.attempts]
        return sum(answer is True for answer in said), self.samples - sum(answer is None for answer in said)

    def share(self, claim: Callable[[Attempt], bool | None]) -> float | None:
        """Share of the samples the claim holds for; None when every one is unscored."""
        hits, of = self.scored(claim)
        return hits / of if of else None

    @property
    def best(self) -> Attempt | None:
        """The sample to show: accepted and fastest, else the one that came furthest."""
        return max(self.attempts, key=_merit, default=None)


def tally(run: BenchRun) -> tuple[Row, ...]:
    """One row per task of the suite, in the suite's order."""
    by_task: dict[str, dict[int, Attempt]] = {task.id: {} for task in run.suite.tasks}
    for attempt in run.attempts:
        if attempt.task.id not in by_task:
            raise UsageError(
                f"run {run.info.id} has an attempt at {attempt.task.id!r}, which its suite does not list",
                hint="the run's files do not belong together; start a new run",
            )
        known = by_task[attempt.task.id].get(attempt.sample)
        if known is None or attempt.verdict is not None or known.verdict is None:
            by_task[attempt.task.id][attempt.sample] = attempt
    asked, excluded = samples(run), run.excluded
    found = {task: tuple(tried[sample] for sample in sorted(tried)) for task, tried in by_task.items()}
    return tuple(_row(task, asked, found[task.id], run.suite, task.id in excluded) for task in run.suite.tasks)


def _row(task: SuiteTask, asked: int, tried: tuple[Attempt, ...], suite: Suite, excluded: bool) -> Row:
    if task.id in suite.skipped:  # not solved on this machine, whether that was seen before the first attempt or by it
        return Row(task, asked, tuple(one for one in tried if one.verdict is not None), excluded)
    if _left_out(tried, task.id in suite.excluded):
        asked = len(tried)
    return Row(task, asked, tried, excluded)


def _left_out(tried: Sequence[Attempt], excluded: bool) -> bool:
    """Samples without an attempt are no failures where the first one showed that nobody can score the task, nor where
    the proposer broke before it came to them.
    """
    unscored = [one for one in tried if one.verdict is None]
    unjudgeable = excluded and bool(tried) and len(unscored) == len(tried)
    return unjudgeable or any((one.error or "").startswith(PROPOSER_FAILED) for one in unscored)


def samples(run: BenchRun) -> int:
    """Answers asked for per task."""
    asked = run.info.config.get("k")
    seen = max((attempt.sample + 1 for attempt in run.attempts), default=1)
    return max(asked if isinstance(asked, int) and not isinstance(asked, bool) else 1, seen)


def attempts(rows: Iterable[Row]) -> Iterator[Attempt]:
    for row in rows:
        yield from row.attempts


# --- claims: what can be said of one attempt; None where it cannot be said ------------------------------------


def accepted(attempt: Attempt) -> bool | None:
    """Our judge's word."""
    return None if attempt.verdict is None else attempt.verdict.accepted


def ran(attempt: Attempt) -> bool | None:
    """It loads and runs to an answer, as our judge saw it."""
    return None if attempt.verdict is None else attempt.verdict.outcome in RAN


def called(attempt: Attempt) -> bool | None:
    """The suite's own Call or Comp."""
    return attempt.official.called if attempt.official is not None else _nothing_to_call(attempt)


def executed(attempt: Attempt) -> bool | None:
    """The suite's own Exec."""
    return attempt.official.executed if attempt.official is not None else _nothing_to_call(attempt)


def faster(baseline: str, p: float, *, sure: bool) -> Callable[[Attempt], bool | None]:
    """Accepted and more than p times as fast: by the interval's lower end, or by the plain ratio of medians."""

    def claim(attempt: Attempt) -> bool | None:
        if attempt.verdict is None:
            return None
        speedup = attempt.verdict.speedups.get(baseline)
        if not attempt.verdict.accepted or speedup is None:
            return False
        return (speedup.low if sure else speedup.ratio) > p

    return claim


def _nothing_to_call(attempt: Attempt) -> bool | None:
    """An answer without code fails every protocol; otherwise a protocol that left no word is unscored."""
    empty = attempt.verdict is not None and attempt.verdict.outcome is Outcome.NO_CODE
    return False if empty else None


def _merit(attempt: Attempt) -> tuple[bool, float, int, int]:
    verdict = attempt.verdict
    if verdict is None:
        return (False, 0.0, -1, -attempt.sample)
    speedup = verdict.speedups.get("eager")
    ratio = speedup.ratio if verdict.accepted and speedup is not None else 0.0
    return (verdict.accepted, ratio, list(Outcome).index(verdict.outcome), -attempt.sample)
