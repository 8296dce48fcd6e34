"""Files with checksums, folders that appear whole or not at all, and how far a long copy has come."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotriton.errors import PrerequisiteError, UsageError

Progress = Callable[[str, int, int], None]
"""Told what is going on, how many bytes (or steps) are done, and of how many."""
CHUNK = 1 << 20
_FULL = os.strerror(errno.ENOSPC)


def silent(what: str, done: int, total: int) -> None:
    """Shows nothing."""


def sha256_of(path: Path, told: Callable[[int], None] | None = None) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
            if told is not None:
                told(len(block))
    return digest.hexdigest()


def is_file_with(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256


def size_of(path: Path) -> int:
    """Bytes of a file, or of everything in a folder."""
    return path.stat().st_size if path.is_file() else sum(one.stat().st_size for one in files_in(path))


def files_in(folder: Path) -> list[Path]:
    """Every file, links followed, in an order that is the same everywhere."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def appearing(target: Path, only: str | None = None) -> Iterator[Path]:
    """A folder to fill, which gets its name when the block ends well; what a killed run left is thrown away first.

    `only` names the one file in it that gets the folder's name instead."""
    refuse_taken(target)
    partial = target.with_name(f"{target.name}.partial")
    try:
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        yield partial
        if target.is_dir():
            target.rmdir()  # empty: `refuse_taken` has seen to that
        (partial if only is None else partial / only).rename(target)
        if only is not None:
            partial.rmdir()
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)  # a half-made model may be what fills the disk
        if _FULL in str(error):  # safetensors has an error of its own
            raise PrerequisiteError(f"{target} cannot be made: {_FULL}", hint="free some space") from None
        if isinstance(error, OSError):
            raise UsageError(f"{target} cannot be made: {error}", hint="check what is read and written") from None
        raise


def refuse_taken(target: Path) -> None:
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise UsageError(f"{target} is there already", hint="name another place, or remove it first")


def require(*packages: str, what: str) -> None:
    for name in packages:
        if importlib.util.find_spec(name) is None:
            raise PrerequisiteError(f"{what} needs the `{name}` package", hint="pip install 'autotriton[train]'")
