"""How much may be tried: a number of candidates, or seconds.

Seconds cover proposing, judging and tuning. What has begun is finished, and the winner's last verdict is always taken,
so a run may end somewhat after its time.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from autotriton.errors import UsageError

DEFAULT_CANDIDATES = 16
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_FORM = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smh]?)")
_HINT = "write a number of candidates, such as 8, or a time, such as 60s, 2m or 1h"
EXPLORING = 0.5
"""Share of the seconds for finding candidates once one is accepted; the rest is for tuning."""


@dataclass(frozen=True)
class Budget:
    """Candidates to be judged, or seconds to be spent: exactly one of the two."""

    candidates: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.candidates, self.seconds) if value is not None]
        if len(given) != 1 or not (math.isfinite(given[0]) and given[0] > 0):
            raise UsageError(f"the budget {self} is not a positive number of candidates or seconds", hint=_HINT)

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.seconds is not None else str(self.candidates)


def parse_budget(text: str) -> Budget:
    """`8` is eight candidates; `60s`, `2m` and `1h` are times."""
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or (not match["unit"] and "." in match["number"]):
        raise UsageError(f"--budget {text!r} is neither a number of candidates nor a time", hint=_HINT)
    if float(match["number"]) == 0:
        raise UsageError(f"--budget {text!r} leaves nothing to try", hint=_HINT)
    if match["unit"]:
        return Budget(seconds=float(match["number"]) * _UNITS[match["unit"]])
    return Budget(candidates=int(match["number"]))


class Allowance:
    """What is left of a budget."""

    def __init__(self, budget: Budget, now: Callable[[], float] = time.monotonic) -> None:
        self.budget, self._now, self._start = budget, now, now()

    def seconds_left(self, share: float = 1.0) -> float:
        """Of that share of the time; infinite where only candidates count."""
        if self.budget.seconds is None:
            return math.inf
        return self.budget.seconds * share - (self._now() - self._start)

    def may_judge(self, judged: int, *, found: bool, tuning: bool) -> bool:
        """Whether one more candidate may be judged; the first one always may.

        Where tuning follows and something is found already, exploring leaves the tuner its share of the time.
        """
        if self.budget.candidates is not None:
            return judged < self.budget.candidates
        return judged == 0 or self.seconds_left(EXPLORING if found and tuning else 1.0) > 0
