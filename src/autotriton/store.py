"""Runs on disk: `runs/<id>/run.json` says what made the numbers, `attempts.jsonl` holds one Attempt a line.

Must stay true: an attempt whose `append` returned survives a kill at any later moment, and a kill in the middle of
`append` costs that attempt only. Lines are only ever added; one process writes a run at a time.

Covered: killed writers, full disks, two writers, a changed config on resume, hand-damaged files. Not covered: network
file systems whose locks do not work, and readers racing a writer's very last line (they see it on the next read).
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import json
import os
import secrets
import subprocess
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

import autotriton
from autotriton import machine
from autotriton.errors import AutoTritonError, PrerequisiteError, UsageError
from autotriton.types import Attempt, Machine, Record

INFO_FILE = "run.json"
ATTEMPTS_FILE = "attempts.jsonl"
LOCK_FILE = "lock"
COMMIT_VARIABLE = "AUTOTRITON_COMMIT"


class RunInfo(Record):
    """What made the numbers of a run."""

    id: str
    verb: str
    config: dict[str, Any]
    """The resolved configuration, as JSON values."""
    commit: str
    """Commit of the checkout the package runs from, else the package's version."""
    started: str
    """UTC, ISO 8601."""
    machine: Machine
    versions: dict[str, str]
    judge_version: str = ""


class Run:
    """One folder under the store. Reading takes no lock; the first `append` takes it until `close`."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path = path
        self.info = info
        self._file: int | None = None
        self._lock: int | None = None
        # One process may judge from several threads; the file lock does not see those.
        self._mutex = threading.Lock()

    @property
    def id(self) -> str:
        return self.info.id

    def append(self, attempt: Attempt) -> None:
        """Writes one attempt; when this returns it is on disk."""
        line = attempt.model_dump_json().encode() + b"\n"
        with self._mutex, _clear(self.path):
            if self._file is None:
                self._open()
            assert self._file is not None
            _write_whole(self._file, line)

    def attempts(self) -> Iterator[Attempt]:
        """Every attempt on disk, oldest first; a torn last line is left out."""
        path = self.path / ATTEMPTS_FILE
        if not path.exists():
            return
        with _clear(path), path.open("rb") as file:
            number, line = 0, b""
            for number, following in enumerate(file):
                if number:
                    yield _parse(line, path, number)
                line = following
            if line and not _torn(line):
                yield _parse(line, path, number + 1)

    def done(self) -> set[tuple[str, str]]:
        """(task id, candidate id) of what has a verdict. Where the judge broke there is none: it is tried again."""
        return {(a.candidate.task_id, a.candidate.id) for a in self.attempts() if a.verdict is not None}

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        """Takes the lock, then repairs what a killed writer left."""
        lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(
                f"run {self.id} is being written by another process", hint="wait for it to end, or start a new run"
            ) from None
        self._lock = lock
        try:
            self._file = os.open(self.path / ATTEMPTS_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            _repair(self._file)
        except OSError:
            self.close()
            raise


class Store:
    """A folder of runs."""

    def __init__(self, root: str | os.PathLike[str] = "runs") -> None:
        self.root = Path(root)

    def create(self, verb: str, config: Mapping[str, Any], *, judge_version: str = "") -> Run:
        """A new run with its `run.json` written."""
        started = datetime.now(UTC)
        with _clear(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            path = _new_folder(self.root, f"{started:%Y%m%d-%H%M%S}-{verb}")
            info = RunInfo(
                id=path.name,
                verb=verb,
                config=_plain(config),
                commit=commit(),
                started=started.isoformat(timespec="seconds"),
                machine=machine.describe(),
                versions=machine.versions(),
                judge_version=judge_version,
            )
            _write_file(path / INFO_FILE, info.model_dump_json(indent=2) + "\n")
        return Run(path, info)

    def open(self, id: str) -> Run:
        """An existing run, by its id."""
        path = self.root / id
        if id != Path(id).name or not (path / INFO_FILE).is_file():
            raise UsageError(f"no run {id!r} in {self.root}", hint=self._nearest(id))
        with _clear(path):
            text = (path / INFO_FILE).read_bytes()
        try:
            return Run(path, RunInfo.model_validate_json(text))
        except ValidationError as error:
            raise UsageError(f"{path / INFO_FILE} is damaged: {_first(error)}", hint="start a new run") from None

    def resume(self, id: str, config: Mapping[str, Any]) -> Run:
        """An existing run to be continued with the same config; the lock is taken and a torn last line cut off."""
        run = self.open(id)
        changed = _changed(run.info.config, _plain(config))
        if changed:
            raise UsageError(
                f"run {id} was made with another config; these differ: {', '.join(changed)}",
                hint="repeat the original options, or start a new run",
            )
        with _clear(run.path):
            run._open()
        return run

    def ids(self) -> list[str]:
        """Ids of all runs, oldest first."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{INFO_FILE}"))

    def _nearest(self, id: str) -> str:
        ids = self.ids()
        near = difflib.get_close_matches(id, ids, n=3, cutoff=0.3) or ids[-3:]
        return f"nearest: {', '.join(near)}" if near else "there are no runs yet"


def commit() -> str:
    """Commit of the checkout this package runs from (marked when it has changes), else the package's version.

    `AUTOTRITON_COMMIT` names it where the tree was copied without its git folder.
    """
    if named := os.environ.get(COMMIT_VARIABLE):
        return named
    package = Path(autotriton.__file__).resolve().parent
    root = package.parent.parent
    # An installed package may lie inside somebody else's repository; only our own layout counts as a checkout.
    if package.parent.name == "src" and (root / ".git").exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
            return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    return autotriton.__version__


def _new_folder(root: Path, prefix: str) -> Path:
    for _ in range(100):
        path = root / f"{prefix}-{secrets.token_hex(2)}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise PrerequisiteError(f"no free run id under {root / prefix}-*", hint="try again in a second")


def _write_whole(descriptor: int, line: bytes) -> None:
    """All of the line or nothing of it, flushed to disk."""
    start = os.fstat(descriptor).st_size
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, start)  # a full disk must not leave half a line in the middle of the file
        raise


def _repair(descriptor: int) -> None:
    """Cuts off a torn last line; a whole one that only lacks its newline gets it."""
    size = os.fstat(descriptor).st_size
    start, tail = _last_line(descriptor, size)
    if not tail:
        return
    if _torn(tail):
        os.ftruncate(descriptor, start)
    elif not tail.endswith(b"\n"):
        os.write(descriptor, b"\n")
    os.fsync(descriptor)


def _last_line(descriptor: int, size: int) -> tuple[int, bytes]:
    """Offset and bytes of the last line, read backwards."""
    start, tail = size, b""
    while start and b"\n" not in tail[:-1]:
        step = min(1 << 16, start)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
    cut = tail.rfind(b"\n", 0, len(tail) - 1) + 1 if tail else 0
    return start + cut, tail[cut:]


def _torn(line: bytes) -> bool:
    """Not JSON: the writer was killed inside it."""
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _parse(line: bytes, path: Path, number: int) -> Attempt:
    try:
        return Attempt.model_validate_json(line)
    except ValidationError as error:
        raise UsageError(
            f"{path}, line {number} is damaged: {_first(error)}", hint="restore the file, or remove that line"
        ) from None


def _first(error: ValidationError) -> str:
    """The first complaint, on one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as JSON gives it back, so that a tuple equals the list it is stored as."""
    try:
        return dict(json.loads(json.dumps(dict(config), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the config cannot be stored as JSON: {error}") from None


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys whose values differ, each with both values."""
    found: list[str] = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += _changed(before, after, f"{prefix}{key}.")
        elif before != after or (key in old) != (key in new):
            found.append(f"{prefix}{key} ({json.dumps(before)} became {json.dumps(after)})")
    return found


def _write_file(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _clear(path: Path) -> Iterator[None]:
    """Turns what the operating system says about the store into one clear error."""
    try:
        yield
    except AutoTritonError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise PrerequisiteError(
            f"cannot use the run store at {path}: {error.strerror or error}",
            hint="free some space there" if full else "make it writable, or name another folder",
        ) from error
