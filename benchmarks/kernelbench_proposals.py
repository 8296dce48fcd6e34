"""Candidates of `kernelbench_speed.py` made ahead: one file per problem, written where there is no GPU, used where
there is one.

A file holds the task's hash; proposals for another version of a problem are made again, never used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import AutoTritonError, ProposerError
from autotriton.propose.base import Proposer
from autotriton.types import Attempt, Candidate, Task


@dataclass(frozen=True)
class Proposals:
    """What a proposer had for one task: candidates, best guess first, and why there are no more."""

    candidates: tuple[Candidate, ...]
    complaint: str


def gather(proposer: Proposer, task: Task, most: int) -> Proposals:
    """Whatever the proposer does, what came before still counts."""
    found: list[Candidate] = []
    try:
        for candidate in proposer.propose(task, ()):
            found.append(candidate)
            if len(found) >= most:
                break
    except AutoTritonError as error:
        return Proposals(tuple(found), str(error))
    except Exception as error:  # noqa: BLE001 - compilers are foreign code
        return Proposals(tuple(found), f"{type(error).__name__}: {error}")
    return Proposals(tuple(found), "the proposer had none")


class Shelf:
    """A folder of proposals."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder, self.engine = folder, engine

    def get(self, level: int, task: Task) -> Proposals | None:
        """None where there are none for this very task."""
        try:
            held: dict[str, Any] = json.loads(self._path(level, task).read_text(encoding="utf-8"))
            if held["task"] != task.hash:
                return None
            return Proposals(tuple(map(Candidate.model_validate, held["candidates"])), str(held["complaint"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, level: int, task: Task, found: Proposals) -> None:
        path = self._path(level, task)
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "task": task.hash,
            "candidates": [candidate.model_dump(mode="json") for candidate in found.candidates],
            "complaint": found.complaint,
        }
        torn = path.with_suffix(".part")
        torn.write_text(json.dumps(held), encoding="utf-8")
        torn.replace(path)

    def _path(self, level: int, task: Task) -> Path:
        return self.folder / self.engine.replace(":", "_").replace("/", "_") / f"level{level}" / f"{task.id}.json"


class ShelfProposer:
    """Answers from the shelf; what is not there is asked of another proposer, or is an error without one."""

    def __init__(self, shelf: Shelf, level: int, otherwise: Proposer | None) -> None:
        self.shelf, self.level, self.otherwise = shelf, level, otherwise

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        found = self.shelf.get(self.level, task)
        if found is None and self.otherwise is not None:
            yield from self.otherwise.propose(task, history)
            return
        if found is None:
            raise ProposerError(f"no proposals for {task.id}", hint="make them with --propose-only")
        yield from found.candidates
        if not found.candidates:
            raise ProposerError(found.complaint)


def make_ahead(
    tasks: Sequence[tuple[int, Task]],
    shelf: Shelf,
    proposer: Proposer,
    *,
    most: int,
    workers: int,
    late: Callable[[], bool],
    say: Callable[[str], None],
) -> bool:
    """Fill the shelf with what is missing on it, several problems at once; false when the time was up before."""
    missing = [(level, task) for level, task in tasks if shelf.get(level, task) is None]
    say(f"{len(missing)} of {len(tasks)} problems to propose for")
    done = 0

    def one(level: int, task: Task) -> bool:
        nonlocal done
        if late():
            return False
        found = gather(proposer, task, most)
        shelf.put(level, task, found)
        done += 1
        told = ", ".join(candidate.proposer for candidate in found.candidates) or found.complaint
        say(f"[{done}/{len(missing)}] L{level} {task.id}: {' '.join(told.split())[:200]}")
        return True

    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(lambda pair: one(*pair), missing)))
