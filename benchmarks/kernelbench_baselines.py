"""Times of eager and torch.compile kept between runs of `kernelbench_speed.py`, so that another try at a kernel need
not compile the baseline again.

Kept times hold for one task on one machine. Only the *ratio* of compile to eager is taken from them: eager is always
timed beside the candidate. A table to be published comes from a run with `--fresh-baselines`.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotriton.types import Machine, Task, Verdict


@dataclass(frozen=True)
class Baselines:
    """Milliseconds; None for what could not be measured, and the note that says why."""

    eager_ms: float
    compile_ms: float | None
    note: str | None = None

    def times(self) -> dict[str, float]:
        known = {"eager": self.eager_ms, "compile": self.compile_ms}
        return {name: value for name, value in known.items() if value is not None}


def of_verdict(verdict: Verdict) -> Baselines | None:
    """What a verdict measured, where it tried both."""
    eager, compiled = verdict.baselines.get("eager"), verdict.baselines.get("compile")
    note = next((note for note in verdict.notes if note.startswith("baseline compile")), None)
    if eager is None or (compiled is None and note is None):
        return None
    return Baselines(eager.median_ms, compiled.median_ms if compiled else None, note)


def with_compile(speedups: dict[str, dict[str, float]], known: Baselines) -> dict[str, dict[str, float]]:
    """Speed-ups over eager measured now, and over compile by the ratio of the two known from before."""
    if known.compile_ms is None or "eager" not in speedups:
        return speedups
    factor = known.compile_ms / known.eager_ms
    return {**speedups, "compile": {key: value * factor for key, value in speedups["eager"].items()}}


class BaselineCache:
    """One JSON line per task and machine; the last one counts."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self.path = path
        self._machine = f"{machine.gpu}, torch {machine.torch}, triton {machine.triton}"
        self._mutex = threading.Lock()
        self._held: dict[str, Baselines] = {}
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        for line in lines:
            try:
                held: dict[str, Any] = json.loads(line)
                if held["machine"] == self._machine:
                    self._held[str(held["task"])] = Baselines(**held["baselines"])
            except (ValueError, KeyError, TypeError):
                continue

    def get(self, task: Task) -> Baselines | None:
        return self._held.get(task.hash)

    def put(self, task: Task, found: Baselines) -> None:
        with self._mutex:
            self._held[task.hash] = found
            line = json.dumps({"task": task.hash, "machine": self._machine, "baselines": asdict(found)})
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line.encode() + b"\n")
                os.fsync(file.fileno())
