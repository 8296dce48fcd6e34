"""What was found out once and is worth keeping: files of JSON lines under `$AUTOTRITON_CACHE` or `~/.cache/autotriton`.

Must stay true: lines are only added, whole and under a lock; of several with one key the last counts. A cache that is
damaged or cannot be written costs time, never a result. Not covered: network file systems whose locks do not work.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from autotriton.types import Record

ENVIRONMENT = "AUTOTRITON_CACHE"


class Keyed(Record):
    """One line."""

    key: str


AnyEntry = TypeVar("AnyEntry", bound=Keyed)


def cache_folder() -> Path:
    given = os.environ.get(ENVIRONMENT)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given).expanduser() if given else home / "autotriton"


class LineCache(Generic[AnyEntry]):
    """The entries of one file. Several processes may use it at the same time."""

    def __init__(self, path: Path, kind: type[AnyEntry], what: str) -> None:
        """`what` the cache is called where something is wrong with it."""
        self.path, self._kind, self._what = path, kind, what
        self._entries: dict[str, AnyEntry] = {}
        self._unwritten: dict[str, AnyEntry] = {}
        """Where the file cannot be written, what would be in it."""
        self._stamp: tuple[int, int, int] | None = None
        self._warned = False

    def find(self, key: str) -> AnyEntry | None:
        self._refresh()
        return self._unwritten.get(key) or self._entries.get(key)

    def put(self, *entries: AnyEntry) -> None:
        """Adds lines; other processes may do the same at the same moment."""
        text = "".join(entry.model_dump_json() + "\n" for entry in entries)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write((("" if _ends_clean(file.fileno()) else "\n") + text).encode())
        except OSError as error:
            self._warn(f"{self._what} {self.path} cannot be written: {error.strerror or error}")
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
            self._warn(f"{self._what} {self.path} cannot be read: {error.strerror or error}")
            return
        self._entries, self._stamp = {}, stamp
        self._take(lines[: lines.rfind(b"\n") + 1])  # a line that is being written is read the next time

    def _take(self, lines: bytes) -> None:
        damaged = 0
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                entry = self._kind.model_validate_json(line)
            except ValidationError:
                damaged += 1
                continue
            self._entries[entry.key] = entry
        if damaged:
            self._warn(f"{damaged} damaged lines in {self._what} {self.path} are ignored")

    def _warn(self, text: str) -> None:
        if not self._warned:
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        self._warned = True


def _ends_clean(descriptor: int) -> bool:
    """False when a writer was killed in the middle of a line."""
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
