"""The records of gathering: a `Draft` is a task nobody has run yet, a `GatheredTask` one the judge has admitted.

No torch here. A draft that fails leaves a `Refusal`, so that every draft is accounted for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from autotriton.types import Record, Task

SCHEMA_VERSION = 1


class SourceKind(StrEnum):
    """Where a task came from."""

    SYNTH = "synth"
    OPINFO = "opinfo"
    HARVEST = "harvest"
    WRAPPERS = "wrappers"


class Difficulty(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class Draft(Record):
    """A task as its source wrote it."""

    task: Task
    kind: SourceKind
    origin: str
    """What made it, so that it can be made again: a seed, an operator's sample, a package with its version and file."""
    licence: str
    """SPDX name of the licence the text is under."""
    alternatives: tuple[str, ...] = ()
    """Other texts of the same task, tried in order where the first does not run (guessed constructor and inputs)."""
    ops: tuple[str, ...] = ()
    """Names the source has for its operators; empty where only running it tells."""
    recipe: str = ""


class GatheredTask(Record):
    """A task that runs, was admitted by the judge, and was measured. One row."""

    schema_version: int = SCHEMA_VERSION
    task: Task
    kind: SourceKind
    origin: str
    licence: str
    recipe: str = ""
    ops: tuple[str, ...]
    """The compute operators it runs, without namespace and overload, sorted."""
    families: tuple[str, ...]
    """Operator families, the one that leads the task first (a convolution before the activation fused behind it)."""
    depth: int
    """Compute operators on the longest path from an input to an output."""
    calls: int
    """Compute operators called in all."""
    difficulty: Difficulty
    flops: int
    bytes: int
    """Inputs, parameters and outputs: what must move at least once."""
    input_elements: int
    dtypes: tuple[str, ...]
    graph: str
    """Hash of the canonical operator graph, shapes and constants left out: the unit of a train/held-out split."""
    shaped_graph: str
    """The same with shapes, types and constants: equal for exact twins, whatever they are called."""
    notes: tuple[str, ...] = ()
    judge_version: str = ""

    @property
    def family(self) -> str:
        """The leading family."""
        return self.families[0] if self.families else "none"

    def columns(self) -> dict[str, Any]:
        """Flat, for a table: the task's fields beside the others, with `task_` before them."""
        values = self.model_dump(mode="json")
        task = {f"task_{name}": value for name, value in values.pop("task").items()}
        return {**task, "task_hash": self.task.hash, "family": self.family, **values}

    @staticmethod
    def from_columns(columns: Mapping[str, Any]) -> GatheredTask:
        """The row a table's line was made of."""
        values = {name: value for name, value in columns.items() if name not in ("task_hash", "family")}
        task = {name.removeprefix("task_"): values.pop(name) for name in list(values) if name.startswith("task_")}
        return GatheredTask.model_validate({**values, "task": task})


class Refusal(Record):
    """Why a draft became no task."""

    task_id: str
    task_hash: str
    kind: SourceKind
    origin: str
    reason: str
    """A short class to count by: `raises`, `degenerate`, `random`, `deadline`, `crashed`, ..."""
    detail: str
