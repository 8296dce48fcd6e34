"""Compiling ahead: which kernels each setting needs, and what the compilers made of them.

Kernels are found by calling the wrapper with its real arguments while launches are only collected (`kernels.py`), so
nothing has to be known about the wrapper. What cannot be found this way is compiled when it is measured. In Triton's
interpreter there is nothing to compile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from autotriton.tune import kernels, prune, search
from autotriton.tune.compiling import Pool

Place = tuple[str, int]
"""A wrapper and one of its settings."""
Call = Callable[[], Any]


@dataclass(frozen=True)
class Sorted:
    """What became of a wrapper's settings."""

    usable: list[int]
    refused: dict[int, str]
    unfinished: list[int]


class Ahead:
    def __init__(self, module: ModuleType, capability: str | None, jobs: int) -> None:
        self._needed: dict[Place, list[tuple[str, str]]] = {}
        # An autotuner inside the file would time launches that do not happen, and remember the result.
        tunes_itself = any(type(item).__name__ == "Autotuner" for item in vars(module).values())
        self._pool: Pool | None = None
        if capability is not None and not tunes_itself:
            self._pool = Pool(kernels.functions(module), capability, jobs)

    def collect(self, call: Call, place: Place | None = None) -> None:
        """Hands the kernels this call launches to the compilers."""
        if self._pool is None:
            return
        try:
            with kernels.collecting() as jobs:
                call()
        except Exception:  # noqa: BLE001 - nothing was computed, so whatever follows in foreign code may fail
            jobs = []
        sent = [self._pool.submit(job) for job in jobs]
        if place is not None and jobs and all(sent):
            self._needed.setdefault(place, []).extend(job.key for job in jobs)

    def wait(self, seconds: float) -> None:
        if self._pool is not None:
            self._pool.wait(time.monotonic() + seconds)

    def sort(self, name: str, settings: Sequence[int], shared_limit: int) -> Sorted:
        """The compilers' word is taken only where they compiled the file's own setting, which is known to work."""
        found = Sorted([], {}, [])
        trusted = self._reason((name, search.FIRST), shared_limit) is None
        for setting in settings:
            reason = self._reason((name, setting), shared_limit) if trusted else None
            if reason is not None:
                found.refused[setting] = reason
            elif setting == search.FIRST or self._compiled((name, setting)):
                found.usable.append(setting)
            else:
                found.unfinished.append(setting)
        return found

    def spills(self, calls: Iterable[Call]) -> int:
        """Registers kept in memory by the kernels of these calls; also loads them. Zero where that cannot be known."""
        if self._pool is None:
            return 0
        try:
            with kernels.loading() as loaded:
                for call in calls:
                    call()
        except Exception:  # noqa: BLE001 - it fails again, with its reason, when it is measured
            return 0
        return max((kernel.spills for kernel in loaded), default=0)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _compiled(self, place: Place) -> bool:
        """Also true where nothing is known: then it is compiled when it is measured."""
        return self._pool is None or all(key in self._pool.done for key in self._needed.get(place, ()))

    def _reason(self, place: Place, shared_limit: int) -> str | None:
        done = self._pool.done if self._pool is not None else {}
        return prune.why_not([done[key] for key in self._needed.get(place, ()) if key in done], shared_limit)
