"""A run's metrics on disk, one JSON line a step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"


class Journal:
    """Appends; a resumed run cuts off what came after the checkpoint it goes on from."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS_FILE

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        line = {"step": step, **{name: _plain(value) for name, value in metrics.items()}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """Up to the first line that is none of ours: the run was killed inside its last one."""
        found: list[dict[str, Any]] = []
        for line in self._lines():
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                break
            found.append(row)
        return found

    def unread(self) -> int:
        """Lines behind the one `rows` stopped at: none, unless the file was damaged later."""
        return max(0, len(self._lines()) - len(self.rows()) - 1)

    def rewind(self, step: int) -> None:
        """Forgets what came after `step`."""
        kept = [row for row in self.rows() if row["step"] <= step]
        beside = self.path.with_name(f".{METRICS_FILE}")
        beside.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        beside.replace(self.path)  # a full disk loses nothing

    def _lines(self) -> list[bytes]:
        return self.path.read_bytes().splitlines() if self.path.is_file() else []


def number(value: Any) -> float | None:
    """A metric as it was before it was written; None for what is no number."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _plain(value: Any) -> Any:
    """JSON has no NaN; what was not finite is written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
