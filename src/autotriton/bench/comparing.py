"""Runs of one suite side by side, over the tasks they have in common, with paired tests.

Must stay true: a difference is tested task by task on the same tasks; what makes two runs hard to compare (another
machine, judge, policy or version of the suite) is said, not hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from autotriton.bench.intervals import bootstrap_mean, sign_flip_test, sign_test
from autotriton.bench.metrics import baselines, log_speedup, score
from autotriton.bench.records import BenchRun, channels
from autotriton.bench.score import Score
from autotriton.bench.tally import Row, accepted, tally
from autotriton.errors import UsageError
from autotriton.types import Record

_EAGER = "eager"


class Passing(Record):
    """Which of two runs solves more tasks: an exact sign test over tasks (McNemar's, with one sample each)."""

    better: int
    """Tasks the second run solves more often than the first."""
    worse: int
    equal: int
    p_value: float


class Speeding(Record):
    """How much faster the second run's answers are, over all common tasks, failed ones run eagerly.

    Both are taken against eager, which is known for every task; against one another any baseline cancels out.
    """

    ratio: float
    """Geometric mean of the second run's speed-ups over the first's."""
    low: float
    high: float
    """95%, bootstrap over tasks."""
    p_value: float
    """Paired sign-flip test on log speed-ups."""


class Pair(Record):
    """The second run against the first."""

    first: str
    second: str
    passing: Passing
    speeding: Speeding | None = None
    """None where one of the two was not timed."""


class Comparison(Record):
    """Everything `compare` shows."""

    suite: str
    tasks: tuple[str, ...]
    """Tasks common to all runs."""
    scores: tuple[Score, ...]
    """Each run over the common tasks alone."""
    pairs: tuple[Pair, ...]
    """Every later run against the first."""
    left_out: dict[str, tuple[str, ...]]
    """By run: its tasks that are not common."""
    warnings: tuple[str, ...] = ()


def compare_channels(runs: Sequence[BenchRun]) -> list[Comparison]:
    """One comparison for each suite that all of the runs are over, whatever else some are over."""
    parts = [{channel.suite.name: channel for channel in channels(run)} for run in runs]
    shared = [name for name in parts[0] if all(name in part for part in parts)] if parts else []
    return [compare([part[name] for part in parts]) for name in shared] or [compare(runs)]


def compare(runs: Sequence[BenchRun]) -> Comparison:
    """Raises UsageError where nothing can be compared."""
    if len(runs) < 2:
        raise UsageError("there is nothing to compare with", hint="name two or more runs")
    suites = sorted({run.suite.name for run in runs})
    if len(suites) > 1:
        raise UsageError(f"the runs are of different suites: {', '.join(suites)}", hint="compare runs of one suite")
    shared = common(runs)
    if not shared:
        raise UsageError("the runs have no task in common", hint="compare runs of the same version of the suite")
    excluded = {task: why for run in runs for task, why in run.excluded.items() if task in shared}
    limited = [_limited(run, shared, excluded) for run in runs]
    rows = [[row for row in tally(run) if not row.excluded] for run in limited]
    scores = tuple(score(run) for run in limited)
    pairs = [_pair(runs[0].info.id, run.info.id, rows[0], other) for run, other in zip(runs[1:], rows[1:], strict=True)]
    return Comparison(
        suite=suites[0],
        tasks=tuple(shared),
        scores=scores,
        pairs=tuple(pairs),
        left_out={r.info.id: tuple(t.id for t in r.suite.tasks if t.id not in shared) for r in runs},
        warnings=(*differences(runs), *_incomplete(scores)),
    )


def common(runs: Sequence[BenchRun]) -> list[str]:
    """Ids of tasks every run has, in the first run's order. A task whose reference changed is another task."""
    sources = [{task.id: task.source for task in run.suite.tasks} for run in runs]
    return [
        task
        for task, source in sources[0].items()
        if all(task in other and (not source or not other[task] or other[task] == source) for other in sources[1:])
    ]


def differences(runs: Sequence[BenchRun]) -> list[str]:
    """What else differs besides the answers, one line each."""
    scores = [score(run) for run in runs]
    aspects = {
        "versions of the suite": [run.suite.version for run in runs],
        "judge versions": [run.info.judge_version for run in runs],
        "machines": [run.info.machine.gpu or run.info.machine.cpu for run in runs],
        "policies": [counted.policy for counted in scores],
        "tiers": [counted.tier for counted in scores],
        "numbers of samples": [str(counted.samples) for counted in scores],
        "versions of torch": [run.info.machine.torch or "none" for run in runs],
        "versions of triton": [run.info.machine.triton or "none" for run in runs],
    }
    found = [f"different {what}: {', '.join(dict.fromkeys(v))}" for what, v in aspects.items() if len(set(v)) > 1]
    shared = common(runs)
    for run in runs:
        if missing := len(run.suite.tasks) - len(shared):
            found.append(f"{missing} of {len(run.suite.tasks)} tasks of {run.info.id} are not common and left out")
    return found


def _incomplete(scores: Sequence[Score]) -> list[str]:
    """Runs of which answers are missing, as an interrupted one's are: a test takes them for failures."""
    return [
        f"{counted.missing} of {counted.tasks * counted.samples} answers of {counted.run_id} never came; "
        "each counts as one that fails"
        for counted in scores
        if counted.missing
    ]


def _limited(run: BenchRun, tasks: Sequence[str], excluded: dict[str, str]) -> BenchRun:
    wanted = set(tasks)
    suite = run.suite.model_copy(
        update={
            "tasks": tuple(task for task in run.suite.tasks if task.id in wanted),
            "skipped": {task: why for task, why in run.suite.skipped.items() if task in wanted},
            "excluded": excluded,
        }
    )
    return replace(run, suite=suite, attempts=tuple(a for a in run.attempts if a.task.id in wanted))


def _pair(first: str, second: str, before: Sequence[Row], after: Sequence[Row]) -> Pair:
    there = {row.task.id: row for row in after}
    matched = [(row, there[row.task.id]) for row in before]
    timed = all(_EAGER in baselines(rows) for rows in (before, after))
    return Pair(
        first=first,
        second=second,
        passing=_passing(matched),
        speeding=_speeding(matched) if timed else None,
    )


def _passing(matched: Sequence[tuple[Row, Row]]) -> Passing:
    shares = [(one.share(accepted), two.share(accepted)) for one, two in matched]
    changes = [two - one for one, two in shares if one is not None and two is not None]
    better, worse = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    return Passing(better=better, worse=worse, equal=len(changes) - better - worse, p_value=sign_test(better, worse))


def _speeding(matched: Sequence[tuple[Row, Row]]) -> Speeding | None:
    logs = [(log_speedup(one, _EAGER), log_speedup(two, _EAGER)) for one, two in matched]
    gains = [two - one for one, two in logs if one is not None and two is not None]
    if not gains:
        return None
    bounds = bootstrap_mean(gains)
    return Speeding(
        ratio=math.exp(math.fsum(gains) / len(gains)),
        low=math.exp(bounds.low),
        high=math.exp(bounds.high),
        p_value=sign_flip_test(gains),
    )
