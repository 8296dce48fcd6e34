"""The persistent cache of tuned settings: one file of JSON lines under `$AUTOTRITON_CACHE` or `~/.cache/autotriton`.

Two kinds of entries. *wrapper*: the source of a wrapper and its kernels, its call signatures, GPU and Triton version ->
the best setting. *task*: a task and a candidate's file without its settings, GPU and Triton version -> the settings of
all wrappers, so that a second run needs no GPU process at all.

Must stay true: lines are only added, whole and under a lock; of several with one key the last counts. A cache that is
damaged or cannot be written costs time, never a result. Not covered: network file systems whose locks do not work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from autotriton.tune.tiles import Settings, skeleton, sources
from autotriton.types import Record, Task

ENVIRONMENT = "AUTOTRITON_CACHE"
FILE = "tiles.jsonl"


class Entry(Record):
    """One line: what was found, and how thoroughly it was looked for."""

    key: str
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
    given = os.environ.get(ENVIRONMENT)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given).expanduser() if given else home / "autotriton") / "tiles"


class TileCache:
    """The entries of one folder; by default the user's."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.path = (Path(folder) if folder is not None else default_folder()) / FILE
        self._entries: dict[str, Entry] = {}
        self._unwritten: dict[str, Entry] = {}
        """Where the file cannot be written, what would be in it."""
        self._stamp: tuple[int, int, int] | None = None
        self._warned = False

    def get(self, key: str, budget_s: float = 0.0) -> Entry | None:
        """What is known, unless a search of that many seconds could find more."""
        self._refresh()
        entry = self._unwritten.get(key) or self._entries.get(key)
        return entry if entry is not None and entry.serves(budget_s) else None

    def put(self, *entries: Entry) -> None:
        """Adds lines; other processes may do the same at the same moment."""
        text = "".join(entry.model_dump_json() + "\n" for entry in entries)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write((("" if _ends_clean(file.fileno()) else "\n") + text).encode())
        except OSError as error:
            self._warn(f"the tile cache {self.path} cannot be written: {error.strerror or error}")
            self._unwritten.update({entry.key: entry for entry in entries})

    def _refresh(self) -> None:
        """Reads the file again when it has changed."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
                if stamp == self._stamp:
                    return
                lines = file.read()
        except FileNotFoundError:
            self._entries, self._stamp = {}, None
            return
        except OSError as error:
            self._warn(f"the tile cache {self.path} cannot be read: {error.strerror or error}")
            return
        self._entries, self._stamp = {}, stamp
        self._take(lines[: lines.rfind(b"\n") + 1])  # a line that is being written is read the next time

    def _take(self, lines: bytes) -> None:
        damaged = 0
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                entry = Entry.model_validate_json(line)
            except ValidationError:
                damaged += 1
                continue
            self._entries[entry.key] = entry
        if damaged:
            self._warn(f"{damaged} damaged lines in the tile cache {self.path} are ignored")

    def _warn(self, text: str) -> None:
        if not self._warned:
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        self._warned = True


def _ends_clean(descriptor: int) -> bool:
    """False when a writer was killed in the middle of a line."""
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
