"""Which of the verified candidates is the best.

Where they were timed, the fastest by its median. Where nothing can be timed: the one whose kernels spill no registers,
then the one with the fewest kernel launches (each one is a trip through memory), then the one proposed first, as
proposers give their best guess first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from autotriton.types import Attempt, Kernel, Verdict


def best(attempts: Iterable[Attempt]) -> Attempt | None:
    """The best accepted attempt; None when there is none. A timed verdict beats one that was not timed.

    Of several verdicts on the same code the last counts: it is the deepest, and it may take an earlier one back.
    """
    latest = {a.candidate.id: (a, a.verdict) for a in attempts if a.verdict is not None}
    accepted = [pair for pair in latest.values() if pair[1].accepted]
    if not accepted:
        return None
    return min(accepted, key=lambda pair: _cost(pair[1]))[0]  # the first of equals


def _cost(verdict: Verdict) -> tuple[float, int, int]:
    median_ms = math.inf if verdict.timing is None else verdict.timing.median_ms
    kernels = verdict.kernels
    return median_ms, sum(_spills(kernel) for kernel in kernels), sum(kernel.launches for kernel in kernels)


def _spills(kernel: Kernel) -> int:
    """Spilled registers on the device, or on the target that spills least."""
    if kernel.spills is not None:
        return kernel.spills
    return min((target.spills for target in kernel.targets if target.spills is not None), default=0)
