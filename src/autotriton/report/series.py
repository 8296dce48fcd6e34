"""What the charts show, as plain numbers: the page's drawings and the plots are made from the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autotriton.bench.metrics import rate
from autotriton.bench.tally import Row, faster
from autotriton.types import Attempt, Outcome

GROUPS = {
    "correct": "correct",
    "wrong": "wrong answer",
    "refused": "refused or suspect",
    "failed": "does not run",
    "absent": "no answer",
    "unscored": "not scored",
}
"""What becomes of a candidate, in six words; each has a colour."""
_GROUP_OF = {
    Outcome.CORRECT: "correct",
    Outcome.WRONG: "wrong",
    Outcome.REJECTED: "refused",
    Outcome.NO_WORK: "refused",
    Outcome.SUSPECT: "refused",
    Outcome.COMPILE_ERROR: "failed",
    Outcome.RUNTIME_ERROR: "failed",
    Outcome.CRASHED: "failed",
    Outcome.TIMED_OUT: "failed",
    Outcome.NO_CODE: "absent",
}
BIN_EDGES = tuple(2.0 ** (step / 4) for step in range(-16, 17))
"""A sixteenth to sixteen times, four bins to a doubling; 1 is an edge, so no bin mixes faster with slower."""
THRESHOLDS = tuple(2.0 ** (step / 16) for step in range(-32, 49))
"""From a quarter to eight times."""


@dataclass(frozen=True)
class Curve:
    """Share of all tasks that are correct and more than p times as fast, for each p of THRESHOLDS."""

    baseline: str
    sure: tuple[float, ...]
    median: tuple[float, ...]


@dataclass(frozen=True)
class Family:
    """Samples of one operator family, by group."""

    name: str
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def group(attempt: Attempt | None) -> str:
    """What became of an answer; an absent one is an answer too."""
    if attempt is None:
        return "absent"
    return "unscored" if attempt.verdict is None else _GROUP_OF[attempt.verdict.outcome]


def speedups(rows: Sequence[Row], baseline: str) -> list[float]:
    """Measured speed-ups of accepted candidates, excluded tasks left out."""
    verdicts = [attempt.verdict for row in rows if not row.excluded for attempt in row.attempts]
    found = [verdict.speedups.get(baseline) for verdict in verdicts if verdict is not None and verdict.accepted]
    return [speedup.ratio for speedup in found if speedup is not None and 0 < speedup.ratio < math.inf]


def histogram(values: Sequence[float]) -> list[int]:
    """How many fall between neighbouring BIN_EDGES; what lies beyond counts in the outermost bins."""
    counts = [0] * (len(BIN_EDGES) - 1)
    for value in values:
        place = math.floor((math.log2(value) + 4) * 4)
        counts[min(max(place, 0), len(counts) - 1)] += 1
    return counts


def shown_bins(counts: Sequence[int]) -> range:
    """Whole doublings around what is there and around 1."""
    filled = [place for place, number in enumerate(counts) if number]
    middle = len(counts) // 2
    low = min(*filled, middle - 4) if filled else middle - 4
    high = max(*filled, middle + 3) + 1 if filled else middle + 4
    return range(low // 4 * 4, -(-high // 4) * 4)


def curve(rows: Sequence[Row], baseline: str) -> Curve:
    counted = [row for row in rows if not row.excluded]
    sure, median = (
        tuple(rate(counted, faster(baseline, p, sure=sure)).value or 0.0 for p in THRESHOLDS) for sure in (True, False)
    )
    return Curve(baseline, sure, median)


def families(rows: Sequence[Row]) -> list[Family]:
    """Every sample asked for, by the leading family of its task, the largest family first."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        name = row.task.families[0] if row.task.families else "other"
        counter = counts.setdefault(name, Counter())
        counter.update(group(attempt) for attempt in row.attempts)
        counter["absent"] += row.samples - len(row.attempts)
    found = [Family(name, {key: counter[key] for key in GROUPS if counter[key]}) for name, counter in counts.items()]
    return sorted(found, key=lambda family: (-family.total, family.name))
