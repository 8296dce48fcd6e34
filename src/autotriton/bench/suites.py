"""Suites by name: where their tasks come from and who judges the answers."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotriton.bench import records
from autotriton.bench.examine import Examiner
from autotriton.bench.records import SUITE_FILE, Suite, SuiteTask
from autotriton.bench.screening import options as as_screen
from autotriton.errors import UsageError
from autotriton.judge import JudgeOptions
from autotriton.store import Run
from autotriton.tasks import folder, kernelbench, tritonbench
from autotriton.tasks.families import families
from autotriton.types import Task

_SCRIPTS = "tritonbench"
_CHANNELS = ("g", "t")
STYLES = ("simple", "complex")
HELD_OUT = "held-out"
"""The tasks that a data set keeps from training."""
NAMES = (
    kernelbench.NAME,
    *(f"{kernelbench.NAME}-l{level}" for level in kernelbench.LEVELS),
    *(f"{_SCRIPTS}-{channel}" for channel in _CHANNELS),
    folder.NAME,
    HELD_OUT,
)


@dataclass(frozen=True)
class Loaded:
    """A suite as its files say."""

    name: str
    version: str
    tasks: tuple[Task, ...]
    damaged: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    channels: Mapping[str, str] = field(default_factory=dict)
    """Of several suites in one: `NAME@VERSION` by task."""

    @property
    def scripts(self) -> bool:
        """Its tasks are scripts with tests, not modules with inputs."""
        return self.name.startswith(_SCRIPTS)

    def limited(self, limit: int | None) -> Loaded:
        """Only the first tasks; damaged files count only where all do."""
        if limit is None:
            return self
        return replace(self, tasks=self.tasks[:limit], damaged={}, ignored=())

    def suite(self, skipped: Mapping[str, str]) -> Suite:
        """The record of what is asked; damaged tasks are part of it, as nobody can answer them."""
        of = self.channels.get
        there = [
            SuiteTask(id=task.id, families=families(task.source), source=task.source, channel=of(task.id, ""))
            for task in self.tasks
        ]
        broken = [SuiteTask(id=name, channel=of(name, "")) for name in self.damaged]
        reasons = {name: f"damaged: {reason}" for name, reason in self.damaged.items()}
        return Suite(
            name=self.name, version=self.version, tasks=(*there, *broken), skipped={**reasons, **dict(skipped)}
        )


def load(name: str, root: Path, style: str = STYLES[0]) -> Loaded:
    """The suite of that name out of a checkout or folder. Raises UsageError where either is not what it should be."""
    known(name)
    kind, _, part = name.partition("-")
    root = root.expanduser()
    if name == kernelbench.NAME:
        return _levels(root)
    if kind == kernelbench.NAME:
        found = kernelbench.read(root, int(part.removeprefix("l")))
        return Loaded(name, found.version, found.tasks, found.damaged)
    if kind == _SCRIPTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever loads a suite is handed what is damaged
            read = tritonbench.read(root, part, style)
        damaged = {Path(file).stem: why for file, why in read.damaged.items()}
        return Loaded(name, read.version, tuple(read.tasks), damaged)
    if name == HELD_OUT:
        return _held_out(root)
    found = folder.read(root)
    return Loaded(name, found.version, found.tasks, found.damaged, found.ignored)


def _levels(root: Path) -> Loaded:
    """All of KernelBench at once: a GPU that waits for the memory of one level's tasks judges those of another."""
    found = {f"{kernelbench.NAME}-l{level}": kernelbench.read(root, level) for level in kernelbench.LEVELS}
    channels: dict[str, str] = {}
    for name, level in found.items():
        for id in (*(task.id for task in level.tasks), *level.damaged):
            if id in channels:
                raise UsageError(f"two levels have a task {id}", hint=f"run the levels one by one: {name}")
            channels[id] = f"{name}@{level.version}"
    return Loaded(
        kernelbench.NAME,
        "+".join(dict.fromkeys(level.version for level in found.values())),
        tuple(task for level in found.values() for task in level.tasks),
        {name: why for level in found.values() for name, why in level.damaged.items()},
        channels=channels,
    )


def _held_out(root: Path) -> Loaded:
    from autotriton.data.build import tables
    from autotriton.data.rows import TaskRow

    place = tables.place_of(root)
    rows = tables.read(place, "held_out", TaskRow)
    version = folder.content_version([place / "held_out.parquet"])
    tasks = tuple(row.task().model_copy(update={"suite": f"{HELD_OUT}@{version}"}) for row in rows)
    return Loaded(HELD_OUT, version, tasks)


def known(name: str) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(NAMES)}"
        raise UsageError(f"unknown suite {name!r}", hint=hint)


def examiner(
    loaded: Loaded,
    options: JudgeOptions,
    *,
    workers: int | None,
    samples: int,
    memory_bytes: int | None,
    screening: bool = False,
) -> Examiner:
    """Whoever judges this suite's answers; its processes live until `close`. `screening`: without a GPU."""
    if screening:
        options = as_screen(options)
    if loaded.scripts:
        from autotriton.bench.scripts import ScriptExaminer

        return ScriptExaminer(options.policy, options.device, workers, options.timeout_s, screening=screening)
    from autotriton.bench.modules import ModuleExaminer

    return ModuleExaminer(options, workers=workers, samples=samples, memory_bytes=memory_bytes)


def begin(run: Run, loaded: Loaded, examiner: Examiner, memory_bytes: int | None) -> Suite:
    """What the run asks: as it was begun where it is resumed, else with the tasks that do not fit left out."""
    if (run.path / SUITE_FILE).is_file():
        return records.load(run).suite
    too_large = getattr(examiner, "too_large", None)
    skipped: dict[str, str] = too_large(loaded.tasks, memory_bytes) if too_large is not None else {}
    return loaded.suite(skipped)
