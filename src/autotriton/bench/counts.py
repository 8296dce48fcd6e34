"""The plain counts of a run, for its last lines: how many tasks, how many of their samples came how far."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from autotriton.bench.records import BenchRun
from autotriton.types import Attempt


@dataclass(frozen=True)
class Counts:
    tasks: int
    answered: int
    """Tasks with a sample that has a verdict."""
    called: int
    """Samples that load and run by the suite's own protocol."""
    executed: int
    """Samples that pass the suite's own comparison."""
    checked: int
    """Samples the judge accepts, on tasks that prove something."""
    judged: int
    unscored: int
    outcomes: dict[str, int]
    fast: dict[str, int]
    """Samples that are checked and faster than each baseline for certain."""
    geometric_mean: dict[str, float]
    """Of the speed-ups of those that were timed."""


def count(run: BenchRun) -> Counts:
    latest: dict[tuple[str, int], Attempt] = {}
    for attempt in run.attempts:  # of a sample that was tried again, the try that got a verdict
        key = (attempt.task.id, attempt.sample)
        if attempt.verdict is not None or key not in latest:
            latest[key] = attempt
    judged = [attempt for attempt in latest.values() if attempt.verdict is not None]
    counted = [attempt for attempt in judged if attempt.task.id not in run.excluded]
    accepted = [attempt.verdict for attempt in counted if attempt.verdict is not None and attempt.verdict.accepted]
    speeds = {name: [v.speedups[name] for v in accepted if name in v.speedups] for name in ("eager", "compile")}
    return Counts(
        tasks=len(run.suite.tasks),
        answered=len({attempt.task.id for attempt in judged}),
        called=sum(attempt.official is not None and attempt.official.called for attempt in judged),
        executed=sum(attempt.official is not None and attempt.official.executed for attempt in judged),
        checked=len(accepted),
        judged=len(judged),
        unscored=len(latest) - len(judged),
        outcomes=dict(Counter(a.verdict.outcome.value for a in judged if a.verdict is not None).most_common()),
        fast={name: sum(speed.low > 1 for speed in found) for name, found in speeds.items() if found},
        geometric_mean={
            name: math.exp(math.fsum(math.log(speed.ratio) for speed in found) / len(found))
            for name, found in speeds.items()
            if found
        },
    )
