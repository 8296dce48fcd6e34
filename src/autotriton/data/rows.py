"""The rows of a data set: `Example` teaches (a task and a verified answer), `TaskRow` asks (a task only).

One row is one line of JSON or one row of Parquet: only text, numbers and lists of text, so that any reader takes them.
"""

from __future__ import annotations

from autotriton.types import Mode, Record, Task

PROSE, MODULE = "prose", "module"
"""How a question is put: described with signature and formula, or shown as a program to be rewritten."""


class TaskRow(Record):
    """A task to be solved: what reinforcement learning and the held-out measurement draw from."""

    id: str
    prompt: str
    """What the model is asked, as one user message."""
    source: str
    """The reference program."""
    entry: str = "Model"
    mode: Mode = Mode.TRAIN
    origin: str
    """Where the task came from: `synth`, `opinfo`, `wrappers`, `harvest:<package>==<version>`."""
    licence: str
    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    """Operator families, the leading one first."""
    depth: int = 1
    difficulty: float | None = None
    """0 easy to 1 hard, from depth and rarity; a measured solve rate replaces it where a model was at hand."""
    solve_rate: float | None = None
    graph: str = ""
    """Signature of the operator graph without shapes: rows of one graph never lie on both sides of the split."""
    style: str = MODULE

    def task(self) -> Task:
        return Task(id=self.id, source=self.source, entry=self.entry, mode=self.mode)


class Example(TaskRow):
    """A task with an answer the judge accepted."""

    completion: str
    """The whole answer: reasoning, then one fenced block."""
    code: str
    """The program of that block, as it was judged."""
    route: str
    """Who wrote it: `templates`, `inductor`, `wrappers`, `distilled:<model>`, `model:<run>`."""
    policy: str = "strict"
    tier: str = "run"
    judge_version: str = ""
    cases: int = 0
    """How many inputs it was tried on."""
    max_error: float | None = None
    kernels: int = 0
    """Kernels launched in one call."""
    way: str = ""
    """How templates were told to write it: `propose.way` of the build."""
