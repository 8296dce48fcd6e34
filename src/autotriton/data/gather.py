"""Drafts become tasks: each is run, admitted by the judge, measured and tagged, in sandboxed processes of the judge's.

    drafts -> workers (one survey process each) -> tasks.jsonl | refused.jsonl

Must stay true: every draft ends in exactly one of the two files; a draft that hangs costs its deadline and nothing
else; a killed run goes on where it stopped; this process imports no torch and runs no task.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from autotriton.data.families import profile
from autotriton.data.records import Draft, GatheredTask, Refusal, SourceKind
from autotriton.data.signature import nodes_of, signature
from autotriton.data.survey import Crashed, Surveyor, Taking
from autotriton.data.synth import TABLE
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.judge.options import JUDGE_VERSION
from autotriton.judge.processes import Processes
from autotriton.types import Record

TASKS_FILE, REFUSED_FILE, OPTIONS_FILE = "tasks.jsonl", "refused.jsonl", "gather.json"
_LEADING = {"recurrent", "attention", "loss", "convolution"}


class GatherOptions(Record):
    """What influences the rows; a resumed run must have the same."""

    seed: int = 0
    device: str = "cpu"
    deadline_s: float = 30.0
    """For one draft, all its alternatives included."""
    max_runs: int = 48
    """Reference runs spent on one admission."""
    judge_version: str = JUDGE_VERSION


@dataclass
class Summary:
    """What became of the drafts of one call."""

    admitted: int = 0
    skipped: int = 0
    """Done by an earlier call."""
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def drafts(self) -> int:
        return self.admitted + self.refused.total()

    def line(self) -> str:
        """For people: counts by reason and the rate."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.refused.most_common())
        rate = f"{self.drafts / self.seconds:.1f}/s" if self.seconds else "-"
        again = f", {self.skipped} done before" if self.skipped else ""
        return f"{self.admitted} of {self.drafts} drafts admitted at {rate}{again}" + (
            f"; refused: {reasons}" if reasons else ""
        )


Progress = Callable[[Summary], None]


def gather(
    drafts: Iterable[Draft],
    folder: str | os.PathLike[str],
    options: GatherOptions | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> Summary:
    """Runs every draft that `folder` does not know yet. Rows are on disk as soon as they are counted."""
    options = options or GatherOptions()
    owned = processes is None
    processes = processes or Processes()
    count = workers or max(1, min(os.cpu_count() or 1, 16))
    try:
        with _Output(Path(folder), options) as output:
            return _Run(iter(drafts), output, options, processes, progress).run(count)
    finally:
        if owned:
            processes.close()


def gathered(folder: str | os.PathLike[str]) -> Iterator[GatheredTask]:
    """The admitted tasks of a folder, in the order they were admitted; a torn last line is left out."""
    return _read(Path(folder, TASKS_FILE), GatheredTask)


def refusals(folder: str | os.PathLike[str]) -> Iterator[Refusal]:
    return _read(Path(folder, REFUSED_FILE), Refusal)


def row(draft: Draft, answer: dict[str, Any]) -> GatheredTask | Refusal:
    """What a survey's answer makes of a draft."""
    task = draft.task
    chosen = int(answer.get("text", 0))
    if chosen > 0:
        task = task.model_copy(update={"source": draft.alternatives[chosen - 1]})
    if "refused" in answer:
        return refusal(draft, str(answer["refused"]), str(answer["detail"]))
    nodes = nodes_of(answer["graph"])
    hints = (
        tuple(dict.fromkeys(TABLE[name].family for name in draft.ops if name in TABLE))
        if draft.kind is SourceKind.SYNTH
        else ()
    )
    found = profile(nodes, tuple(hint for hint in hints if hint in _LEADING))
    if not found.ops:
        return refusal(draft, "no compute", "the task only makes views or copies")
    graph = signature(answer["graph"])
    dtypes = sorted({text.split("(")[0] for node in nodes if node.name == "leaf" for text in node.outputs})
    return GatheredTask(
        task=task.model_copy(update={"tags": found.families}),
        kind=draft.kind,
        origin=draft.origin,
        licence=draft.licence,
        recipe=draft.recipe,
        ops=found.ops,
        families=found.families,
        depth=found.depth,
        calls=found.calls,
        difficulty=found.difficulty,
        flops=int(answer["flops"]),
        bytes=int(answer["bytes"]),
        input_elements=int(answer["elements"]),
        dtypes=tuple(dtypes),
        graph=graph.graph,
        shaped_graph=graph.shaped,
        notes=tuple(answer["notes"]),
        judge_version=JUDGE_VERSION,
    )


def refusal(draft: Draft, reason: str, detail: str) -> Refusal:
    return Refusal(
        task_id=draft.task.id,
        task_hash=draft.task.hash,
        kind=draft.kind,
        origin=draft.origin,
        reason=reason,
        detail=" ".join(detail.split())[:400],
    )


class _Run:
    """The workers of one call, and what they share."""

    def __init__(
        self,
        drafts: Iterator[Draft],
        output: _Output,
        options: GatherOptions,
        processes: Processes,
        progress: Progress | None,
    ) -> None:
        self.drafts, self.output, self.options, self.processes, self.progress = (
            drafts,
            output,
            options,
            processes,
            progress,
        )
        self.summary = Summary()
        self._taking, self._counting = threading.Lock(), threading.Lock()
        self._failure: BaseException | None = None
        self._started = time.monotonic()

    def run(self, workers: int) -> Summary:
        threads = [threading.Thread(target=self._work, name=f"gather-{number}") for number in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:
            self._failure = self._failure or error  # the workers stop after the draft they have
            for thread in threads:
                thread.join()
            raise
        self.summary.seconds = time.monotonic() - self._started
        if self._failure is not None:
            raise self._failure
        return self.summary

    def _work(self) -> None:
        surveyor = Surveyor(self.processes, self.options.device)
        try:
            while self._failure is None:
                draft = self._next()
                if draft is None:
                    return
                self._count(draft, self._surveyed(surveyor, draft))
        except BaseException as error:  # noqa: BLE001 - kept and raised in the caller's thread
            self._failure = self._failure or error
        finally:
            surveyor.close()

    def _next(self) -> Draft | None:
        with self._taking:
            for draft in self.drafts:
                if self.output.claim(draft.task.hash):
                    return draft
                self.summary.skipped += 1
        return None

    def _surveyed(self, surveyor: Surveyor, draft: Draft) -> GatheredTask | Refusal:
        request = {
            "task": draft.task.model_dump(mode="json"),
            "alternatives": list(draft.alternatives),
            "seed": self.options.seed,
            "device": self.options.device,
            "max_runs": self.options.max_runs,
        }
        # Foreign code may leave torch changed behind it: such a task gets a process of its own.
        alone = draft.kind is SourceKind.HARVEST
        try:
            return row(draft, surveyor.ask(request, self.options.deadline_s, alone=alone))
        except Taking as error:
            return refusal(draft, "deadline", str(error))
        except Crashed as error:
            return refusal(draft, "crashed", str(error))

    def _count(self, draft: Draft, result: GatheredTask | Refusal) -> None:
        with self._counting:
            self.output.write(draft, result)
            if isinstance(result, GatheredTask):
                self.summary.admitted += 1
            else:
                self.summary.refused[result.reason] += 1
            self.summary.seconds = time.monotonic() - self._started
            if self.progress is not None:
                self.progress(self.summary)


AnyRecord = TypeVar("AnyRecord", bound=Record)


class _Output:
    """The folder's files. One process writes at a time; what was there stays."""

    def __init__(self, folder: Path, options: GatherOptions) -> None:
        self.folder, self.options = folder, options
        self._known: set[str] = set()

    def __enter__(self) -> _Output:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
        except OSError as error:
            raise UsageError(
                f"{self.folder} cannot be written: {error.strerror}", hint="choose another folder"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UsageError(f"{self.folder} is being written by another process", hint="wait for it to end") from None
        self._check_options()
        for name in (TASKS_FILE, REFUSED_FILE):
            _repair(self.folder / name)
        self._known = {hash for name in (TASKS_FILE, REFUSED_FILE) for hash in _hashes(self.folder / name)}
        self._files = {name: (self.folder / name).open("ab") for name in (TASKS_FILE, REFUSED_FILE)}
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._lock.close()

    def claim(self, hash: str) -> bool:
        """True once per draft; callers hold a lock."""
        fresh = hash not in self._known
        self._known.add(hash)
        return fresh

    def write(self, draft: Draft, result: GatheredTask | Refusal) -> None:
        name = TASKS_FILE if isinstance(result, GatheredTask) else REFUSED_FILE
        # The draft's own hash marks it as done: an alternative text has another.
        line = json.dumps({"draft": draft.task.hash, **result.model_dump(mode="json")}, ensure_ascii=False)
        try:
            self._files[name].write(line.encode() + b"\n")
            self._files[name].flush()
        except OSError as error:
            raise PrerequisiteError(
                f"{self.folder / name} cannot be written: {error.strerror}",
                hint="make room and start again: finished rows stay",
            ) from None

    def _check_options(self) -> None:
        path = self.folder / OPTIONS_FILE
        wanted = self.options.model_dump(mode="json")
        if not path.exists():
            path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise UsageError(f"{path} is damaged", hint="delete it, or choose another folder") from None
        other = sorted(key for key in {*wanted, *found} if wanted.get(key) != found.get(key))
        if other:
            raise UsageError(
                f"{self.folder} was begun with another {', '.join(other)}", hint="use the same, or another folder"
            )


def _repair(path: Path) -> None:
    """Cut off the line a killed writer left unfinished."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(data.rfind(b"\n") + 1)


def _hashes(path: Path) -> Iterator[str]:
    for _, line in _lines(path):
        yield str(line.get("draft", ""))


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                return
            try:
                yield number, json.loads(text)
            except ValueError:
                raise UsageError(
                    f"{path} line {number} is damaged", hint="delete that line: its draft is then run again"
                ) from None


def _read(path: Path, kind: type[AnyRecord]) -> Iterator[AnyRecord]:
    for number, line in _lines(path):
        line.pop("draft", None)
        try:
            yield kind.model_validate(line)
        except ValidationError:
            raise UsageError(
                f"{path} line {number} is no {kind.__name__}", hint="was it written by another version?"
            ) from None
