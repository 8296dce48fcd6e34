"""What a run leaves behind: the winning file, its verdict, and the page.

Must stay true: each file appears whole or not at all, and nothing else in the folder is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotriton.errors import UsageError
from autotriton.loop import Result
from autotriton.report.numbers import finite
from autotriton.report.page import page
from autotriton.store import RunInfo
from autotriton.types import Attempt, Task


@dataclass(frozen=True)
class FileNames:
    """Names for one task: `mine.py:rms_norm` gives `mine_rms_norm_triton.py`."""

    kernel: str
    verdict: str = "verdict.json"
    report: str = "report.html"

    @staticmethod
    def of(task: Task) -> FileNames:
        return FileNames(kernel=f"{stem(task)}_triton.py")


def stem(task: Task) -> str:
    """The task's id as part of a file name."""
    return re.sub(r"[^\w.-]+", "_", task.id).lstrip(".") or "task"


def identifier(task: Task) -> str:
    """The task's id as the name of a Python package."""
    name = re.sub(r"\W+", "_", stem(task)).lower()
    return name if name.isidentifier() else f"task_{name}"


def require_writable(folder: Path) -> None:
    """Makes sure, before any work, that files can be written there; leaves nothing behind, should there be none."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        hint = "name another folder with --out"
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}", hint=hint) from None


def write(folder: Path, result: Result, info: RunInfo | None = None) -> dict[str, Path]:
    """Paths of what was written, by kind; without a winner that is the report alone."""
    names = FileNames.of(result.task)
    contents: dict[str, tuple[str, str]] = {}
    if result.winner is not None:
        contents["kernel"] = (names.kernel, result.winner.candidate.code)
        contents["verdict"] = (names.verdict, _verdict(result.winner, names.kernel))
    contents["report"] = (names.report, page(result, info))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.values():
            _replace(folder / name, text)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}", hint="name another --out") from None
    return {kind: folder / name for kind, (name, _) in contents.items()}


def write_text(path: Path, text: str, *, option: str) -> Path:
    """One file, whole or not at all; `option` is what to change when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", hint=f"name another {option}") from None
    return path


def _verdict(winner: Attempt, kernel: str) -> str:
    """The verdict as `autotriton judge --json` prints it, and what it is about."""
    assert winner.verdict is not None
    about = {
        "task": winner.task.id,
        "candidate": winner.candidate.id,
        "proposer": winner.candidate.proposer,
        "file": kernel,
        "run": winner.run_id or None,
    }
    return json.dumps(finite({**winner.verdict.to_json(), **about}), indent=2, allow_nan=False) + "\n"


def _replace(path: Path, text: str) -> None:
    """Written beside its place, then moved there in one step."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's files are for their owner alone
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
