"""Successive halving: every setting a few times, then the better ones more often. Pure: no clock and no GPU of its own.

A setting is a number, its place in the list of choices; number 0 is the file's own. It stays in every round, so that
what replaces it was compared with it under the same conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

FIRST = 0
ROUNDS = (3, 10, 30)
"""Timed runs of each setting that is still in the race."""
_KEEP = (lambda count: max(3, math.ceil(count / 3)), lambda count: 3, lambda count: 1)
_FAR_SLOWER = 2.0
"""A setting this many times slower than the best one known needs no second look."""
_WORTH = 0.01
"""Less than this is noise: the file's own setting then stays."""
_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Measurement:
    ms: float
    repetitions: int


Measure = Callable[[int, int, float], float | None]
"""(setting, repetitions, limit in ms beyond which it may stop early) -> median ms; None when it cannot be used."""


def halve(settings: Sequence[int], measure: Measure, time_left: Callable[[], bool]) -> bool:
    """Measures in rounds, best first from the second on; False when the time ran out before the last."""
    alive = list(settings)
    for number, repetitions in enumerate(ROUNDS):
        found: dict[int, float] = {}
        for setting in alive:
            if not time_left():
                return False
            limit = _FAR_SLOWER * min(found.values(), default=math.inf)
            ms = measure(setting, repetitions, limit)
            if ms is not None:
                found[setting] = ms
        ranked = sorted(found, key=lambda setting: found[setting])
        alive = ranked[: _KEEP[number](len(ranked))]
        if FIRST in found and FIRST not in alive:
            alive.append(FIRST)
        if len(alive) < 2:
            break
    return True


def winner(found: Mapping[int, Measurement]) -> int | None:
    """The fastest of those measured most thoroughly; the file's own setting when the gain is within the noise."""
    if not found:
        return None
    most = max(measurement.repetitions for measurement in found.values())
    last = {setting: one.ms for setting, one in found.items() if one.repetitions == most}
    best = min(last, key=lambda setting: last[setting])
    own = last.get(FIRST)
    return FIRST if own is not None and own <= last[best] * (1 + _WORTH) else best


def worth_tuning(times_ms: Mapping[str, float]) -> dict[str, float]:
    """Share of the time of each wrapper that takes at least a fiftieth of it, largest first."""
    total = sum(times_ms.values())
    shares = {name: ms / total for name, ms in times_ms.items()} if total > 0 else {}
    ranked = sorted(shares, key=lambda name: -shares[name])
    return {name: shares[name] for name in ranked if shares[name] >= _LEAST_SHARE}


def by_promise(settings: Mapping[str, Sequence[int]], shares: Mapping[str, float]) -> list[tuple[str, int]]:
    """Wrappers' settings in one line: best guesses first, and the more of a wrapper the more time it takes."""
    placed = [
        (place / shares[name], name, setting)
        for name, listed in settings.items()
        for place, setting in enumerate(listed, start=1)
    ]
    return [(name, setting) for _, name, setting in sorted(placed)]


def time_slices(shares: Mapping[str, float], left_s: float) -> dict[str, float]:
    """Seconds from now at which each wrapper has to be done, in order; the last one has all that is left."""
    total, ends, passed = sum(shares.values()), {}, 0.0
    for name, share in shares.items():
        passed += share
        ends[name] = left_s * passed / total
    return ends
