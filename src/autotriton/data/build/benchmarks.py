"""The benchmarks a data set must not contain: texts of every file, and graphs with shapes of the tasks that have one.

Graphs are recorded over tensors without memory, in the judge's sandbox, so any machine can record those of tasks made
for a large GPU. Scripts without `get_inputs` have no graph; they are kept out by form and by runs of words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.data.quality.decontaminate import Benchmarks, read
from autotriton.data.signature import signature
from autotriton.data.survey import Crashed, Surveyor, Taking
from autotriton.errors import UsageError
from autotriton.judge.processes import Processes
from autotriton.types import Task

_DEADLINE_S = 60.0
_TASK = re.compile(r"^class Model\b.*^def get_inputs\b", re.MULTILINE | re.DOTALL)


@dataclass
class Kept:
    """Benchmarks, and what a card says about them."""

    found: Benchmarks
    roots: tuple[str, ...]
    digest: str
    """Of all texts: two builds with the same one kept out the same."""
    files: int = 0
    graphs: int = 0
    without_graph: dict[str, str] = field(default_factory=dict)
    """Tasks whose graph could not be recorded, and why."""


def texts(roots: Sequence[Path]) -> Kept:
    """Without graphs."""
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"--against {root} is not a folder", hint="name a checkout of a benchmark")
    hashed = hashlib.sha256()
    files = [path for root in roots for path in sorted(root.rglob("*.py"))]
    for path in files:
        hashed.update(path.read_bytes())
    return Kept(read(roots), tuple(root.resolve().name for root in roots), hashed.hexdigest()[:16], len(files))


def with_graphs(roots: Sequence[Path], processes: Processes) -> Kept:
    kept = texts(roots)
    surveyor = Surveyor(processes)
    try:
        for root in roots:
            for path in sorted(root.rglob("*.py")):
                source = path.read_text(encoding="utf-8", errors="replace")
                if _TASK.search(source):
                    _record(kept, surveyor, str(path.relative_to(root)), source)
    finally:
        surveyor.close()
    return kept


def _record(kept: Kept, surveyor: Surveyor, name: str, source: str) -> None:
    task = Task(id=name, source=source)
    try:
        answer = surveyor.ask({"outline": True, "task": task.model_dump(mode="json")}, _DEADLINE_S)
    except (Taking, Crashed) as error:
        kept.without_graph[name] = str(error)
        return
    if "graph" not in answer:
        kept.without_graph[name] = str(answer["detail"])
        return
    kept.found.add_graph(name, signature(answer["graph"]).shaped)
    kept.graphs += 1
