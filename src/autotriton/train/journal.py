"""A run's metrics on disk, one JSON line a step, and the curves drawn from them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"
CURVES_FILE = "curves.png"


class Journal:
    """Appends; a resumed run cuts off what came after the checkpoint it goes on from."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS_FILE

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        line = {"step": step, **{name: _plain(value) for name, value in metrics.items()}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        found: list[dict[str, Any]] = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # the run was killed inside its last line
                break
        return found

    def rewind(self, step: int) -> None:
        """Forgets what came after `step`."""
        kept = [row for row in self.rows() if row["step"] <= step]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


def draw(rows: Sequence[Mapping[str, Any]], names: Sequence[str], path: Path, title: str) -> bool:
    """One small plot per metric that was measured; False where there is nothing to draw or nothing to draw with."""
    series = {name: [(row["step"], row[name]) for row in rows if isinstance(row.get(name), float)] for name in names}
    series = {name: points for name, points in series.items() if points}
    if not series or importlib.util.find_spec("matplotlib") is None:
        return False
    figures: Any = importlib.import_module("matplotlib.figure")
    columns = min(3, len(series))
    lines = -(-len(series) // columns)
    figure = figures.Figure(figsize=(4.2 * columns, 2.8 * lines), layout="constrained")
    figure.suptitle(title)
    for place, (name, points) in enumerate(series.items(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        axes.plot([step for step, _ in points], [value for _, value in points], linewidth=1.4)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130)
    return True


def _plain(value: Any) -> Any:
    """JSON has no NaN; what was not finite is written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
