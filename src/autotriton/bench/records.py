"""A benchmark run on disk: the store's `run.json` and `attempts.jsonl`, and `suite.json` beside them.

`suite.json` names every task that counts, so that a task nobody answered stays in the denominator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.store import Run, RunInfo, Store
from autotriton.types import Attempt, Record

SUITE_FILE = "suite.json"
VERB = "bench"
"""Of these runs."""
DEGENERATE = "degenerate task:"
"""How the judge's note begins on a verdict about a task that admission refuses."""


class SuiteTask(Record):
    """One task of the suite, as the run counts it."""

    id: str
    families: tuple[str, ...] = ()
    """Operator families of the reference, the leading one first, e.g. `convolution`, `norm`."""
    source: str = ""
    """The reference as the suite has it, for the report."""
    channel: str = ""
    """`NAME@VERSION` of the suite it is from, in a run over several of them."""


class Suite(Record):
    """What was asked, whatever was answered."""

    name: str
    """`kernelbench-l1`, `tritonbench-g`, ..., `tasks`."""
    version: str
    """Commit of the suite's checkout, or a hash of its files where it is none."""
    tasks: tuple[SuiteTask, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks never judged on this machine, with the reason (they need more memory than the GPU has). Still counted."""
    excluded: dict[str, str] = Field(default_factory=dict)
    """Tasks whose verdicts prove little (degenerate, random by themselves), with the reason; left out of `checked`."""


@dataclass(frozen=True)
class BenchRun:
    """One finished or interrupted benchmark run, as the counting reads it."""

    info: RunInfo
    suite: Suite
    attempts: tuple[Attempt, ...]

    @property
    def excluded(self) -> dict[str, str]:
        """Found beforehand, or by admission while judging."""
        found = dict(self.suite.excluded)
        for attempt in self.attempts:
            for note in attempt.verdict.notes if attempt.verdict else ():
                if note.startswith(DEGENERATE):
                    found.setdefault(attempt.task.id, note.removeprefix(DEGENERATE).strip())
        return found


def channels(found: BenchRun) -> list[BenchRun]:
    """The run as the suites it is over, each counted by itself: a run over one suite is its own only channel."""
    names = list(dict.fromkeys(task.channel for task in found.suite.tasks))
    return [found] if names in ([], [""]) else [_channel(found, name) for name in names]


def _channel(found: BenchRun, channel: str) -> BenchRun:
    name, _, version = channel.partition("@")
    tasks = tuple(task for task in found.suite.tasks if task.channel == channel)
    there = {task.id for task in tasks}
    suite = Suite(
        name=name,
        version=version,
        tasks=tasks,
        skipped={id: why for id, why in found.suite.skipped.items() if id in there},
        excluded={id: why for id, why in found.suite.excluded.items() if id in there},
    )
    return BenchRun(found.info, suite, tuple(one for one in found.attempts if one.task.id in there))


def save_suite(run: Run, suite: Suite) -> None:
    """Writes it, or leaves the one that is there: a full disk costs nothing that was known."""
    path = run.path / SUITE_FILE
    fresh = path.with_suffix(".tmp")
    try:
        fresh.write_text(suite.model_dump_json(indent=1) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise PrerequisiteError(
            f"cannot write {path}: {error.strerror or error}", hint="free some space there, or make it writable"
        ) from error


def named(names: Sequence[str], store: Path) -> list[Run]:
    """Different runs, each by its id in the store or by its folder, wherever that lies."""
    found = [Store(place(name, store)).open(Path(name).name) for name in names]
    if twice := [id for id, times in Counter(run.id for run in found).items() if times > 1]:
        raise UsageError(f"run {twice[0]} is named twice", hint="name different runs")
    return found


def place(name: str, store: Path) -> Path:
    """The folder of runs that holds it: an id is looked for in the store, a path says so itself."""
    path = Path(name)
    return path.parent if len(path.parts) > 1 else store


def load(run: Run) -> BenchRun:
    """The run as counted. Raises UsageError where it is no benchmark run or its file is damaged."""
    path: Path = run.path / SUITE_FILE
    if not path.is_file():
        if run.info.verb == VERB:
            raise UsageError(f"run {run.id} ended before it began: it has no {SUITE_FILE}", hint="resume it")
        raise UsageError(f"run {run.id} is no benchmark run: it has no {SUITE_FILE}", hint="name one of `bench`")
    try:
        suite = Suite.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PrerequisiteError(f"cannot read {path}: {error.strerror or error}", hint="make it readable") from error
    except ValidationError as error:
        raise UsageError(f"{path} is damaged: {error.errors()[0]['msg']}", hint="start a new run") from None
    return BenchRun(run.info, suite, tuple(run.attempts()))
