"""`race`: how long several candidates for one task take as they are, measured in one process and compiled side by side.

A first look, to decide which of them is worth tuning and judging: nothing is checked here. One that fails, or ends the
process, has no time, and the others are measured all the same.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from autotriton import machine
from autotriton.tune.messages import ALONE, RaceRequest
from autotriton.tune.session import Session
from autotriton.tune.supervise import START_S, Gate, Open
from autotriton.types import Candidate, Task

_WORKER = "runners"
_STALL_S = 90.0
"""A candidate that keeps the worker silent for this long hangs."""


def race(
    task: Task,
    candidates: Sequence[Candidate],
    *,
    budget_s: float,
    gate: Gate | None = None,
    device: str = "cuda",
    jobs: int | None = None,
) -> list[float | None]:
    """Milliseconds of one forward pass of each; None where it failed or the time was up before."""
    capability = machine.describe().compute_capability if device == "cuda" else None
    found: dict[int, float] = {}
    failed: set[int] = set()
    deadline = time.monotonic() + budget_s
    with tempfile.TemporaryDirectory(prefix="autotriton-race-") as name:
        folder = Path(name)
        for number, candidate in enumerate(candidates):
            (folder / f"candidate{number}.py").write_text(candidate.code, encoding="utf-8")
        while len(found) + len(failed) < len(candidates) and time.monotonic() < deadline:
            left = [number for number in range(len(candidates)) if number not in found and number not in failed]
            request = RaceRequest(
                task=task,
                paths={number: str(folder / f"candidate{number}.py") for number in left},
                device=device,
                capability=capability,
                jobs=jobs or len(os.sched_getaffinity(0)),
            )
            loser = _run(request, folder, gate or Open(), deadline, found, failed)
            if loser is None:
                break
            failed.add(loser)
    return [found.get(number) for number in range(len(candidates))]


def _run(
    request: RaceRequest, folder: Path, gate: Gate, deadline: float, found: dict[int, float], failed: set[int]
) -> int | None:
    """One worker until it ends; which candidate it was at when it ended too early."""
    session = Session(request, folder, _WORKER)
    gate.started(session.process.pid)
    running: int | None = None
    entered: AbstractContextManager[None] | None = None
    try:
        event = session.next(START_S)
        while event is not None:
            kind = event["event"]
            if kind == "enter":
                entered = gate.alone() if event["gate"] == ALONE else gate.shared()
                entered.__enter__()
                session.answer(deadline - time.monotonic())
            elif kind == "leave" and entered is not None:
                entered.__exit__(None, None, None)
                entered = None
            elif kind == "running":
                running = int(event["number"])
            elif kind == "timed":
                found[int(event["number"])], running = float(event["ms"]), None
            elif kind == "failed":
                failed.add(int(event["number"]))
                running = None
            elif kind == "end":
                return None
            event = session.next(min(_STALL_S, max(1.0, deadline - time.monotonic())))
    finally:
        session.end()
        if entered is not None:
            entered.__exit__(None, None, None)
    return running
