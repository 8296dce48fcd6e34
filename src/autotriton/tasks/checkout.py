"""Which version of a suite a checkout holds: its commit, read from `.git`, so that no git is needed for that.

Where git is there too, a commit whose task files were changed since is marked.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from autotriton.tasks import folder

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEPTH = 2
"""How far above the tasks' folder the checkout may begin; further up it is somebody else's repository."""
_GIT_S = 20.0


def version(tasks: Path, paths: Sequence[Path]) -> str:
    """The commit, `<commit>+changed` where the task files differ from it, or a hash of the files."""
    tasks = tasks.resolve()
    for place in (tasks, *list(tasks.parents)[:_DEPTH]):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if (place / ".git").exists() and (found := _commit(place / ".git")) is not None:
                return found + ("+changed" if _changed(place, tasks) else "")
    return folder.content_version(paths)


def _commit(git: Path) -> str | None:
    if git.is_file():  # a worktree or a submodule: the file says where the folder is
        git = (git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else None
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    shared = (git / common.read_text(encoding="utf-8").strip()).resolve() if common.is_file() else git
    for place in (git, shared):
        if (place / name).is_file():
            found = (place / name).read_text(encoding="utf-8").strip()
            return found if _COMMIT.fullmatch(found) else None
    return _packed(shared / "packed-refs", name)


def _packed(path: Path, name: str) -> str | None:
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        commit, _, ref = line.partition(" ")
        if ref == name and _COMMIT.fullmatch(commit):
            return commit
    return None


def _changed(root: Path, tasks: Path) -> bool:
    """As git says; a machine without git, or one that does not trust the folder, has to take the commit's word."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "status", "--porcelain", "--", str(tasks)]
        found = subprocess.run(command, capture_output=True, timeout=_GIT_S, check=False)
        return found.returncode == 0 and bool(found.stdout.strip())
    return False
