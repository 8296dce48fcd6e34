"""The heart: propose, judge, refine, tune; the best verified candidate wins, whoever wrote it.

Proposers take turns, one candidate each, until the budget is spent or nobody has anything new. Every attempt is in the
store before the next one begins, so a killed run can be resumed. On a GPU the most promising candidates are tuned,
judged again and timed. Without one nothing can be timed, so unless a budget is given a proposer has its say until one
of its candidates is accepted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from autotriton.errors import AutoTritonError, JudgeError, ProposerError, UsageError
from autotriton.judge import JudgeOptions
from autotriton.loop.budget import DEFAULT_CANDIDATES, Allowance, Budget
from autotriton.loop.court import Court, JudgeCourt
from autotriton.loop.finals import finals
from autotriton.loop.progress import Failed, Progress
from autotriton.loop.search import Search
from autotriton.loop.source import Source
from autotriton.propose import Proposer
from autotriton.store import Run
from autotriton.types import Attempt, Task


@dataclass(frozen=True)
class OptimizeOptions:
    """Defaults are what a person wants who has a module and a minute or two."""

    judge: JudgeOptions = field(default_factory=JudgeOptions)
    """With `tier` None: as far as the machine allows, timing included on a GPU."""
    budget: Budget | None = None
    """None: up to 16 candidates, and on a machine without a GPU the first accepted one of each proposer."""
    tune_s: float = 60.0
    """Seconds of tuning for all finalists together; a budget in seconds may leave less."""
    retune: bool = False
    """Tune again what the tuner's cache knows."""
    finalists: int = 3
    """How many verified candidates are tuned and timed."""


@dataclass(frozen=True)
class Result:
    """Everything one run found."""

    task: Task
    attempts: tuple[Attempt, ...]
    winner: Attempt | None
    """The best accepted attempt; None when nothing was accepted."""
    failures: tuple[Failed, ...] = ()
    """Proposers, or the tuner, that gave up."""
    seconds: float = 0.0


def optimize(
    task: Task,
    proposers: Sequence[Proposer],
    options: OptimizeOptions | None = None,
    run: Run | None = None,
    progress: Progress | None = None,
    *,
    court: Court | None = None,
) -> Result:
    """The best verified candidate for the task, and all attempts. Attempts already in `run` are not made again.

    Raises TaskError or PrerequisiteError where no candidate can be judged, and the proposers' own errors where none
    of them had a candidate. `court` is a judge to be shared between calls; it stays open.
    """
    if not proposers:
        raise UsageError("no proposer was given", hint="give one, for example the compiler")
    options = options or OptimizeOptions()
    started = time.monotonic()
    search = Search(task, run, progress or (lambda _: None))
    allowance = Allowance(options.budget or Budget(candidates=DEFAULT_CANDIDATES))
    with nullcontext(court) if court is not None else JudgeCourt(options.judge) as judges:
        judges.look(task)
        _explore(search, [Source(proposer) for proposer in proposers], judges, options, allowance)
        if judges.times:
            finals(search, judges, options, allowance)
    return _result(search, time.monotonic() - started)


def _explore(
    search: Search, sources: Sequence[Source], court: Court, options: OptimizeOptions, allowance: Allowance
) -> None:
    """Candidates of all sources in turn, judged for correctness."""
    first_is_enough = options.budget is None and not court.times
    waiting = deque(sources)
    if first_is_enough and search.best is not None:
        return  # resumed after it was found
    while waiting and allowance.may_judge(search.judged, found=search.best is not None, tuning=court.times):
        source = waiting.popleft()
        candidate = search.propose(source)
        if candidate is None:
            continue
        attempt = search.consider(candidate, court.correct)
        accepted = attempt.verdict is not None and attempt.verdict.accepted
        if not (accepted and first_is_enough):
            waiting.append(source)


def _result(search: Search, seconds: float) -> Result:
    if not search.attempts:
        raise _nobody(search)
    if not search.verdicts:
        raise JudgeError(f"the judge broke on every candidate: {search.attempts[-1].error}")
    return Result(search.task, tuple(search.attempts), search.best, tuple(search.failures), seconds)


def _nobody(search: Search) -> AutoTritonError:
    """Why there is not a single candidate: a lone proposer's own error, or every cause by name."""
    if not search.failures:
        return ProposerError(f"no proposer had a candidate for task {search.task.id}")
    first = search.failures[0].error
    if len(search.failures) == 1 and isinstance(first, AutoTritonError):
        return first
    causes = "; ".join(f"{failure.who}: {failure.cause}" for failure in search.failures)
    return ProposerError(f"no proposer had a candidate for task {search.task.id}: {causes}")
