"""A folder of KernelBench-style files as tasks. One damaged file costs that file, never the folder.

Must stay true: files are parsed, never run, and what the folder holds is named by a version that changes with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.errors import UsageError
from autotriton.tasks import source
from autotriton.types import Task

NAME = "tasks"
_NUMBER = re.compile(r"\d+")
_NO_TASK = "has no class `Model`"


@dataclass(frozen=True)
class TaskSet:
    """The tasks of a suite, in its own order."""

    tasks: tuple[Task, ...]
    version: str
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that should be tasks and cannot be read as such: id and the reason, on one line."""
    ignored: tuple[str, ...] = ()
    """Files beside the tasks that are none."""


def read(root: Path) -> TaskSet:
    """Every task file of a folder. A file without a class `Model` is no task: answers may lie beside them."""
    paths = files_of(_folder(root), "*.py")
    if not paths:
        raise UsageError(f"{root} holds no Python files", hint="--root is a folder of task files")
    version = content_version(paths)
    found = parse(paths, f"{NAME}@{version}")
    ignored = tuple(name for name, reason in found.damaged.items() if _NO_TASK in reason)
    damaged = {name: reason for name, reason in found.damaged.items() if name not in ignored}
    if not found.tasks:
        reason = next(iter(damaged.values()), f"none of its {len(paths)} Python files has a class `Model`")
        raise UsageError(f"{root} holds no task: {reason}", hint="a task defines Model and get_inputs")
    return TaskSet(found.tasks, version, damaged, ignored)


def parse(paths: Iterable[Path], suite: str, tags: tuple[str, ...] = ()) -> TaskSet:
    """The files as tasks of a suite; those that are damaged are listed."""
    tasks: list[Task] = []
    damaged: dict[str, str] = {}
    for path in paths:
        try:
            tasks.append(source.load(path).model_copy(update={"suite": suite, "tags": tags}))
        except UsageError as error:
            damaged[path.stem] = " ".join(str(error.args[0]).split())
    return TaskSet(tuple(tasks), suite.rpartition("@")[2], damaged)


def files_of(folder: Path, pattern: str) -> list[Path]:
    """The folder's files in the order of their numbers: 2 before 10."""
    try:
        found = [path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith((".", "__"))]
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}", hint="check its permissions") from None
    return sorted(found, key=_place)


def content_version(paths: Iterable[Path]) -> str:
    """A name for the files' contents, for folders that are no checkout."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        try:
            content = path.read_bytes()
        except OSError as error:
            content = str(error.strerror).encode()
        digest.update(f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    return f"files-{digest.hexdigest()[:12]}"


def _folder(root: Path) -> Path:
    if root.is_dir():
        return root
    what = "is not a folder" if root.exists() else "does not exist"
    raise UsageError(f"the root {root} {what}", hint="--root is a folder of task files")


def _place(path: Path) -> tuple[int, str]:
    found = _NUMBER.match(path.stem)
    return (int(found[0]) if found else 0, path.stem)
