"""Checkpoints of a run: which one to go on from, when one is whole, and which may go.

Must stay true: a checkpoint is used only if it is, byte for byte, what was written, and an older one goes only after a
newer one is whole. Each checkpoint's last file holds the checksums of the others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from autotriton.errors import AutoTritonError, TrainError, UsageError
from autotriton.models import record
from autotriton.models.record import FileSum
from autotriton.train import processes

WHOLE_FILE = "whole"
"""Last into a checkpoint's folder: a run that is killed before it goes on from an earlier one."""
_NAME = "checkpoint-"
_FULL = os.strerror(errno.ENOSPC)
_LITTLE = 1 << 20
"""Bytes that are left where torch says only that it could not write."""


class Contents(BaseModel):
    """What `WHOLE_FILE` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[FileSum, ...]


def at(folder: Path, step: int) -> Path:
    """Where the trainer puts the checkpoint of a step."""
    return folder / f"{_NAME}{step}"


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(_NAME))


def seal(checkpoint: Path, keep: int) -> None:
    """Marks a checkpoint as whole, then removes the oldest until `keep` are left."""
    processes.all_here()  # others may still be writing their part of it
    if not processes.is_first():
        return
    mark = checkpoint / WHOLE_FILE
    mark.unlink(missing_ok=True)
    partial = checkpoint / f"{WHOLE_FILE}.partial"
    text = Contents(files=record.sums(checkpoint)).model_dump_json(indent=1)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.rename(mark)
    for old in _sealed(checkpoint.parent)[:-keep]:
        shutil.rmtree(old)


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that was written whole."""
    return next(reversed(_sealed(folder)), None)


def start(folder: Path) -> Path | None:
    """The checkpoint to go on from: the newest that is still whole. What is newer cannot be used and is removed."""
    found = Path(processes.made_once(lambda: str(_cleared(folder) or folder)))
    return None if found == folder else found


@contextlib.contextmanager
def writing(run: Path) -> Iterator[None]:
    """Whatever keeps files of a run from being written is one line; what was whole before stays."""
    try:
        yield
    except AutoTritonError:
        raise
    except Exception as error:  # noqa: BLE001 - torch, safetensors and the file system each raise their own
        full = _FULL in str(error) or shutil.disk_usage(run).free < _LITTLE
        text = _FULL if full else " ".join(str(error).split())[:300]
        hint = f"free some space, then go on with --resume {run}" if full else f"go on with --resume {run}"
        raise TrainError(f"{run} cannot be written: {text}", hint=hint) from None


def _cleared(folder: Path) -> Path | None:
    sealed = _sealed(folder)
    for checkpoint in reversed(sealed):
        if wrong := _wrong_files(checkpoint):
            print(f"{checkpoint} is not used: {wrong[0]} is missing or not what was written", file=sys.stderr)
            continue
        for other in _all(folder):
            if step_of(other) > step_of(checkpoint):
                shutil.rmtree(other)
        return checkpoint
    if sealed:
        raise UsageError(f"every checkpoint in {folder} is damaged", hint="restore one, or start a new run")
    for unfinished in _all(folder):
        shutil.rmtree(unfinished)
    return None


def _wrong_files(checkpoint: Path) -> list[str]:
    text = (checkpoint / WHOLE_FILE).read_bytes()
    try:
        # Without a word in it the mark says no more than that everything was written.
        contents = Contents.model_validate_json(text) if text else Contents(files=())
    except ValidationError:
        return [WHOLE_FILE]
    return record.wrong_among(checkpoint, contents.files)


def _sealed(folder: Path) -> list[Path]:
    return [path for path in _all(folder) if (path / WHOLE_FILE).is_file()]


def _all(folder: Path) -> list[Path]:
    """Oldest first."""
    found = [path for path in folder.glob(f"{_NAME}*") if path.name.removeprefix(_NAME).isdecimal()]
    return sorted(found, key=step_of)
