"""A build's folder: its config, and one append-only file of lines per stage.

Must stay true: a line whose `append` returned survives a kill; a kill inside `append` costs that line only; one process
writes at a time; a folder begun with another config is refused by name of what differs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from autotriton.configs import plain
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.records import Judged, Proposal, Selected
from autotriton.errors import AutoTritonError, PrerequisiteError, UsageError

CONFIG_FILE, SELECTION_FILE, LOCK_FILE = "build.json", "selection.json", "build.lock"
GATHERED, DATASET = "gathered", "dataset"


AnyLine = TypeVar("AnyLine", bound=BaseModel)


class Lines(Generic[AnyLine]):
    """One file of records. Reading takes no lock; appending is for the folder's one writer, from any thread."""

    def __init__(self, path: Path, kind: type[AnyLine]) -> None:
        self.path, self.kind = path, kind
        self._mutex = threading.Lock()
        self._file: int | None = None

    def __iter__(self) -> Iterator[AnyLine]:
        """Every whole line; one a killed writer left unfinished is left out."""
        if not self.path.exists():
            return
        with clear(self.path), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield self._parsed(line, number)

    def append(self, record: AnyLine) -> None:
        line = record.model_dump_json().encode() + b"\n"
        with self._mutex, clear(self.path):
            if self._file is None:
                self._file = _opened(self.path)
            _write_whole(self._file, line)

    def replace(self, records: Iterable[AnyLine]) -> None:
        """All of the lines at once, or none of them."""
        write_whole_file(self.path, "".join(record.model_dump_json() + "\n" for record in records))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _parsed(self, line: bytes, number: int) -> AnyLine:
        try:
            return self.kind.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise UsageError(
                f"{self.path}, line {number} is damaged: {first['msg']}", hint="remove that line: it is made again"
            ) from None


class Folder:
    """The build's place on disk, open for writing. Use as a context manager."""

    def __init__(self, path: Path, config: BuildConfig) -> None:
        self.path, self.config = path, config
        self.selected = Lines(path / "selected.jsonl", Selected)
        self.proposals = Lines(path / "proposals.jsonl", Proposal)
        self.judged = Lines(path / "judged.jsonl", Judged)
        self._lock: int | None = None

    @property
    def gathered(self) -> Path:
        return self.path / GATHERED

    @property
    def dataset(self) -> Path:
        return self.path / DATASET

    def __enter__(self) -> Folder:
        with clear(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._check_config()
            except BlockingIOError:
                self.__exit__()
                raise UsageError(
                    f"{self.path} is being written by another process", hint="wait for it to end"
                ) from None
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        for lines in (self.selected, self.proposals, self.judged):
            lines.close()
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def selection(self) -> dict[str, Any] | None:
        """What selecting found; None while gathering goes on."""
        return read_json(self.path / SELECTION_FILE)

    def _check_config(self) -> None:
        path, wanted = self.path / CONFIG_FILE, plain(self.config)
        found = read_json(path)
        if found is None:
            write_whole_file(path, json.dumps(wanted, indent=1) + "\n")
        elif other := differences(whole(found), wanted):
            raise UsageError(
                f"{self.path} was begun with another config; these differ: {', '.join(other)}",
                hint="use the same config, or another folder",
            )


def read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        with clear(path):
            return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError:
        raise UsageError(f"{path} is damaged", hint="restore it, or choose another folder") from None


def whole(config: dict[str, Any]) -> dict[str, Any]:
    """A config as it was kept, with the defaults of keys it did not know yet."""
    try:
        return plain(BuildConfig.model_validate(config))
    except ValidationError:  # another version's; what differs is told by key
        return config


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys whose values differ, each with both values."""
    found: list[str] = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key} ({json.dumps(before)} became {json.dumps(after)})")
    return found


def write_whole_file(path: Path, text: str) -> None:
    """The file as it was, or with all of the text in it."""
    new = path.with_name(path.name + ".new")
    with clear(path):
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def _opened(path: Path) -> int:
    """Open for appending, after cutting off what a killed writer left unfinished."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(descriptor).st_size
    kept = size
    while kept and os.pread(descriptor, 1, kept - 1) != b"\n":
        start = max(0, kept - (1 << 16))
        kept = start + os.pread(descriptor, kept - start, start).rfind(b"\n") + 1
    os.ftruncate(descriptor, kept)
    return descriptor


def _write_whole(descriptor: int, line: bytes) -> None:
    start = os.fstat(descriptor).st_size
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, start)  # a full disk must not leave half a line in the middle
        raise


@contextlib.contextmanager
def clear(path: Path) -> Iterator[None]:
    """Turns what the operating system says into one clear error."""
    try:
        yield
    except (AutoTritonError, BlockingIOError):
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise PrerequisiteError(
            f"{path} cannot be used: {error.strerror or error}",
            hint="make room and start again: finished rows stay" if full else "check the folder",
        ) from None
