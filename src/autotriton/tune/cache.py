"""The persistent cache of tuned settings (`line_cache.py`), in the folder `tiles`.

Two kinds of entries. *wrapper*: the source of a wrapper and its kernels, its call signatures, GPU and Triton version ->
the best setting. *task*: a task and a candidate's file without its settings, GPU and Triton version -> the settings of
all wrappers, so that a second run needs no GPU process at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from autotriton.line_cache import Keyed, LineCache, cache_folder
from autotriton.tune.tiles import Settings, skeleton, sources
from autotriton.types import Task

FILE = "tiles.jsonl"


class Entry(Keyed):
    """One line: what was found, and how thoroughly it was looked for."""

    settings: Settings
    """By wrapper."""
    complete: bool
    """All alternatives were tried; otherwise a larger budget is worth another search."""
    budget_s: float
    gpu: str
    triton: str
    ms: dict[str, float] = Field(default_factory=dict)
    """Milliseconds with these settings, by wrapper, where measured."""
    own_ms: dict[str, float] = Field(default_factory=dict)
    """The same with the settings the file came with."""
    when: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def serves(self, budget_s: float) -> bool:
        return self.complete or self.budget_s >= budget_s


def wrapper_key(code: str, name: str, calls: Mapping[str, int], gpu: str, triton: str) -> str:
    """Equal where the same kernels are called in the same way on the same kind of machine."""
    return _digest("wrapper", name, sources(code, name), sorted(calls.items()), gpu, triton)


def task_key(task: Task, code: str, gpu: str, triton: str) -> str:
    return _digest("task", task.hash, skeleton(code), gpu, triton)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def default_folder() -> Path:
    return cache_folder() / "tiles"


class TileCache(LineCache[Entry]):
    """The entries of one folder; by default the user's."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        place = Path(folder) if folder is not None else default_folder()
        super().__init__(place / FILE, Entry, "the tile cache")

    def get(self, key: str, budget_s: float = 0.0) -> Entry | None:
        """What is known, unless a search of that many seconds could find more."""
        entry = self.find(key)
        return entry if entry is not None and entry.serves(budget_s) else None
