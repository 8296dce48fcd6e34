"""What proposers answered, made safe to keep, and kept until it is judged.

Answers are costly and come ahead of their verdicts, so each is on disk (`answers.jsonl` in the run's folder) before it
is judged: a killed run that is resumed asks for none of them again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from autotriton.errors import PrerequisiteError
from autotriton.types import Candidate, Record, Task

ANSWERS_FILE = "answers.jsonl"
MOST_CHARS = 1_000_000
"""Of a program or of a whole answer: what the judge reads at most."""
PROPOSER_FAILED = "the proposer failed:"
"""How the error of an attempt begins that was never made."""
_KEPT_CHARS = 2_000
"""Of an answer that is too long, so that one can see what it was."""


@dataclass(frozen=True)
class Answer:
    """One sample for one task. With `refusal` it is no program anybody could judge, with `error` there is none."""

    task: Task
    sample: int
    candidate: Candidate
    refusal: str | None = None
    error: str | None = None


def answer(task: Task, sample: int, candidate: Candidate) -> Answer:
    """The candidate as it can be stored: text that no file can hold is replaced, 10 MB of garbage are cut short."""
    code, completion = _storable(candidate.code), candidate.completion
    longest = max(len(code), len(completion or ""))
    if longest <= MOST_CHARS:
        kept = _storable(completion) if completion is not None else None
        return Answer(task, sample, candidate.model_copy(update={"code": code, "completion": kept}))
    kept = _storable((completion or code)[:_KEPT_CHARS])
    refusal = f"the answer has {longest:,} characters, and at most {MOST_CHARS:,} are taken as one"
    return Answer(task, sample, candidate.model_copy(update={"code": "", "completion": kept}), refusal)


def failure(task: Task, sample: int, proposer: str, error: BaseException, *, final: bool) -> Answer:
    """A proposer that raised instead of answering. `final`: that is its answer, and asking again gives no other."""
    text = " ".join(str(error).split())
    text = _storable(text if hasattr(error, "hint") else f"{type(error).__name__}: {text}")[:_KEPT_CHARS]
    nothing = Candidate(task_id=task.id, code="", proposer=proposer)
    if final:
        return Answer(task, sample, nothing, refusal=f"the proposer has no answer: {text}")
    return Answer(task, sample, nothing, error=f"{PROPOSER_FAILED} {text}")


def _storable(text: str) -> str:
    """Without lone surrogates, which JSON can spell and no encoding can write."""
    return text.encode("utf-8", "replace").decode("utf-8")


class _Line(Record):
    task_id: str
    sample: int
    candidate: Candidate
    refusal: str | None = None


class Shelf:
    """Answers on disk. A torn last line, which a killed writer leaves, is an answer that never came."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ANSWERS_FILE
        self._mutex = threading.Lock()
        self._file: IO[str] | None = None

    def add(self, given: Answer) -> None:
        line = _Line(task_id=given.task.id, sample=given.sample, candidate=given.candidate, refusal=given.refusal)
        with self._mutex:
            try:
                if self._file is None:
                    self._file = self._path.open("a", encoding="utf-8")
                    if self._torn():
                        self._file.write("\n")
                self._file.write(line.model_dump_json() + "\n")
                self._file.flush()
            except OSError as error:
                raise PrerequisiteError(
                    f"cannot write {self._path}: {error.strerror or error}", hint="free some space there"
                ) from error

    def known(self, tasks: dict[str, Task]) -> Iterator[Answer]:
        """What is there for these tasks, in the order it came."""
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                with contextlib.suppress(ValidationError):
                    line = _Line.model_validate_json(text)
                    if line.task_id in tasks:
                        yield Answer(tasks[line.task_id], line.sample, line.candidate, line.refusal)

    def close(self) -> None:
        with self._mutex, contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
            self._file = None

    def _torn(self) -> bool:
        size = self._path.stat().st_size
        with self._path.open("rb") as file:
            file.seek(max(size - 1, 0))
            return size > 0 and file.read(1) != b"\n"
