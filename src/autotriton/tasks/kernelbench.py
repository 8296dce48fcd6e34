"""KernelBench from a checkout: the tasks of one level, as they are, with their own dtypes.

Both the first version's layout and today's have `KernelBench/level1/` to `level4/` with one file per problem,
`23_Softmax.py`. Nothing of it is shipped here.
"""

from __future__ import annotations

import re
from pathlib import Path

from autotriton.errors import UsageError
from autotriton.tasks import checkout, folder
from autotriton.tasks.folder import TaskSet
from autotriton.types import Task

NAME = "kernelbench"
LEVELS = (1, 2, 3)
_HINT = "--root is a checkout of https://github.com/ScalingIntelligence/KernelBench"


def load(root: Path, level: int) -> tuple[tuple[Task, ...], str]:
    """The tasks of a level, by problem number, and the checkout's commit."""
    found = read(root, level)
    return found.tasks, found.version


def read(root: Path, level: int) -> TaskSet:
    """As `load`, with the files that are damaged: they are listed, not fatal."""
    place = _level_folder(root, level)
    paths = [path for path in folder.files_of(place, "*.py") if re.match(r"\d+_", path.name)]
    if not paths:
        raise UsageError(f"{place} holds no problem files such as 1_Name.py", hint=_HINT)
    version = checkout.version(place, paths)
    found = folder.parse(paths, f"{NAME}-l{level}@{version}", (f"level{level}",))
    if not found.tasks:
        raise UsageError(f"every file of {place} is damaged: {next(iter(found.damaged.values()))}", hint=_HINT)
    return found


def _level_folder(root: Path, level: int) -> Path:
    """`root` is the checkout, the folder with the levels in it, or the level's folder itself."""
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UsageError(f"the root {root} {what}", hint=_HINT)
    name = f"level{level}"
    for place in (root / "KernelBench" / name, root / name):
        if place.is_dir():
            return place
    if root.resolve().name == name:
        return root
    raise UsageError(f"{root} has no {name}: neither KernelBench/{name} nor {name} is there", hint=_HINT)
