"""Tasks that were admitted before are not tried again: a fact about the task, its torch and the judge's version.

Trying to fool the judge without any candidate takes longer than judging most candidates, and a benchmark's tasks are
judged again and again. Tasks that import from a folder are always tried: what lies there may have changed.
"""

from __future__ import annotations

from typing import Any

from autotriton.judge.options import JUDGE_VERSION
from autotriton.line_cache import Keyed, LineCache, cache_folder
from autotriton.types import Task

FOLDER, FILE = "admissions", "admissions.jsonl"


class Admitted(Keyed):
    """What trying found."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    random: bool


class Admissions:
    """What is known of tasks on this machine."""

    def __init__(self) -> None:
        self._cache = LineCache(cache_folder() / FOLDER / FILE, Admitted, "the cache of admissions")

    def known(self, task: Task, about: str) -> Admitted | None:
        """`about`: everything else that decides, as text."""
        return None if task.import_root else self._cache.find(_key(task, about))

    def keep(self, task: Task, about: str, found: dict[str, Any]) -> None:
        if task.import_root is None:
            entry = Admitted(
                key=_key(task, about), problems=found["problems"], notes=found["notes"], random=found["random"]
            )
            self._cache.put(entry)


def _key(task: Task, about: str) -> str:
    return f"{task.hash} {JUDGE_VERSION} {about}"
