"""Which tasks a step trains on: those the model solves sometimes, since the others teach nothing.

Seeded and saved with every checkpoint, so that a run that was killed goes on with the tasks it would have drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from autotriton.data.rows import TaskRow
from autotriton.train.config import CurriculumPart

STATE_FILE = "curriculum.json"
_MEMORY = 0.7
"""How much of a task's known solve rate stays when it is measured again."""


class Curriculum:
    """Solve rates as measured so far; unmeasured tasks count as worth trying."""

    def __init__(self, rows: Sequence[TaskRow], wanted: CurriculumPart, seed: int) -> None:
        self.rows = {row.id: row for row in rows}
        self._ids = list(self.rows)  # a task may be in two data sets
        self._wanted = wanted
        self._random = random.Random(seed)
        self.rates: dict[str, float] = {row.id: row.solve_rate for row in rows if row.solve_rate is not None}

    def draw(self, count: int, without: set[str] | None = None) -> list[TaskRow]:
        """Different tasks, none of `without` as long as others are left."""
        left = [task for task in self._ids if task not in (without or set())] or list(self._ids)
        # The exponential trick draws a weighted sample without replacement in one pass.
        keyed = sorted(left, key=lambda task: self._random.random() ** (1.0 / self._weight(task)), reverse=True)
        return [self.rows[task] for task in keyed[:count]]

    def learn(self, task: str, solved: float) -> None:
        """The share of a group's answers that was accepted."""
        known = self.rates.get(task)
        self.rates[task] = solved if known is None else _MEMORY * known + (1 - _MEMORY) * solved

    def save(self, folder: Path) -> None:
        version, internal, gauss = self._random.getstate()
        state = {"rates": self.rates, "random": [version, list(internal), gauss]}
        (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        self.rates = {task: float(rate) for task, rate in state["rates"].items()}
        version, internal, gauss = state["random"]
        self._random.setstate((version, tuple(internal), gauss))

    def _weight(self, task: str) -> float:
        rate = self.rates.get(task)
        inside = rate is None or self._wanted.least <= rate <= self._wanted.most
        return 1.0 if inside else self._wanted.rare
