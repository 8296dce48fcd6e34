"""Waiting until nobody else runs on the GPU, told by how long a spin of known length takes to come back.

Contexts that share a GPU take turns of about two milliseconds, and device events do not see the turns of others: a spin
that fits into a turn of its own looks undisturbed however many neighbours there are (H200, three of them: 1.0 ms by its
events, 5.7 ms by the wall clock). So the wall clock decides. Whoever is timed calls this first, others being stopped:
what they had enqueued still runs.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

SPIN_CYCLES = 2_000_000
"""About a millisecond."""
_SLACK = 1.6
"""A clock lowered by heat or power makes a spin longer too, but not twice as long."""
_IDLE_SPINS, _CALIBRATION = 3, 20
_PATIENCE_S = 10.0
"""What others had enqueued before they were stopped drains in this time; it has to be done anyway."""
_synchronize = torch.cuda.synchronize
_sleep: Callable[[int], None] = torch.cuda._sleep


def spin_ms() -> float:
    """How long a spin takes on this device while nobody else uses it: the shortest of several."""
    return min(_spin() for _ in range(_CALIBRATION))


def wait_until_idle(idle_ms: float) -> bool:
    """Wait until spins take about as long as on an idle device; false when they never did."""
    started, settled = perf_counter(), 0
    while settled < _IDLE_SPINS and perf_counter() - started < _PATIENCE_S:
        settled = settled + 1 if _spin() <= _SLACK * idle_ms else 0
    return settled >= _IDLE_SPINS


def _spin() -> float:
    """Milliseconds from enqueueing a spin to its end."""
    _synchronize()
    started = perf_counter()
    _sleep(SPIN_CYCLES)
    _synchronize()
    return (perf_counter() - started) * 1e3
