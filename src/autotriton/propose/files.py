"""`files:DIR`: answers somebody already has, replayed in order. Nothing is run; the judge treats them like any other.

For the task `23_Softmax` it finds `23_Softmax.py`, further samples (`23_Softmax_1.py`, `23_Softmax.1.py`,
`23_Softmax_sample_1.py`, everything in a folder `23_Softmax/`), or else what KernelBench's generation scripts leave:
`level_1_problem_23_sample_0_kernel.py`. A `.md` or `.txt` file is a model's whole answer: the program is cut out of it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotriton.errors import ProposerError, UsageError
from autotriton.propose.extract import MOST_CHARS, extract, parses
from autotriton.propose.prompt import wanted
from autotriton.types import Attempt, Candidate, Task

FORM = "files:DIR"
_ENDING = r"\.(?:py|md|txt)"
_SAMPLE = r"(?:(?:_sample)?[_.](?P<sample>\d+))?"
_KERNELBENCH = re.compile(rf"level_(?P<level>\d+)_problem_(?P<problem>\d+)_sample_(?P<sample>\d+)_kernel{_ENDING}")
_LEVEL = re.compile(r"\bl(?:evel)?[-_]?(\d+)\b")


class FilesProposer:
    """Every stored answer to a task, in the order of the samples; equal answers count as often as they are there.

    A file that cannot be read is an error after all the others.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        if not self.folder.is_dir():
            what = "is not a folder" if self.folder.exists() else "does not exist"
            raise UsageError(f"the folder of answers {self.folder} {what}", hint=f"check the path in {FORM}")
        self.name = f"files:{os.fspath(folder)}"

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        own = (attempt.candidate for attempt in history if attempt.candidate.proposer == self.name)
        tried = Counter((candidate.task_id, candidate.id) for candidate in own)
        unread: list[ProposerError] = []
        for path in self._answers(task):
            try:
                candidate = self._candidate(task, path)
            except ProposerError as error:  # told at the end: it costs none of the answers after it
                unread.append(error)
                continue
            key = (candidate.task_id, candidate.id)
            if tried[key]:
                tried[key] -= 1
            else:
                yield candidate
        if unread:
            raise unread[0]

    def _answers(self, task: Task) -> list[Path]:
        """Files that answer the task, by its name or by its number in KernelBench."""
        try:
            entries = sorted(self.folder.iterdir())
        except OSError as error:
            raise ProposerError(
                f"{self.folder} cannot be read: {error.strerror}", hint="check its permissions"
            ) from None
        for stem in _stems(task):
            if found := _named(entries, stem):
                return found
        if found := self._of_kernelbench(entries, task):
            return found
        looked = [f"{_stems(task)[0]}.py", f"{_stems(task)[0]}_<n>.py", f"{_stems(task)[0]}/"]
        looked += [f"level_*_problem_{number}_sample_*_kernel.py" for number in _problem(task)]
        raise ProposerError(f"no answer to task {task.id} in {self.folder}", hint=f"looked for {', '.join(looked)}")

    def _of_kernelbench(self, entries: list[Path], task: Task) -> list[Path]:
        matches = [(path, found) for path in entries if (found := _KERNELBENCH.fullmatch(path.name))]
        number, level = _problem(task), _level(task)
        ours = [(path, found) for path, found in matches if int(found["problem"]) in number]
        ours = [(path, found) for path, found in ours if level in (None, int(found["level"]))]
        levels = sorted({int(found["level"]) for _, found in ours})
        if len(levels) > 1:
            named = " and ".join(map(str, levels))
            raise ProposerError(
                f"{self.folder} answers problem {number[0]} of levels {named}, and task {task.id} names no level",
                hint="keep one level per folder",
            )
        return [path for path, _ in sorted(ours, key=lambda pair: int(pair[1]["sample"]))]

    def _candidate(self, task: Task, path: Path) -> Candidate:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ProposerError(f"the answer {path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ProposerError(f"the answer {path} is not UTF-8 text", hint="remove it, or save it as UTF-8") from None
        whole = path.suffix != ".py" or ("```" in text and len(text) <= MOST_CHARS and not parses(text))
        if not whole:
            return Candidate(task_id=task.id, code=text, proposer=self.name)
        code = extract(text, wanted(task).accepted)
        return Candidate(task_id=task.id, code=code, proposer=self.name, completion=text)


def _stems(task: Task) -> list[str]:
    """File names that mean the task, without ending: `mine:rms_norm` is also `mine_rms_norm`, at last just `mine`."""
    name = task.id.rpartition("/")[2]
    return list(dict.fromkeys((name, name.replace(":", "_"), name.partition(":")[0])))


def _named(entries: list[Path], stem: str) -> list[Path]:
    """`stem.py` first, then its samples by number, then what lies in the folder `stem/`."""
    pattern = re.compile(re.escape(stem) + _SAMPLE + _ENDING)
    found = [(int(match["sample"] or -1), path) for path in entries if (match := pattern.fullmatch(path.name))]
    inside = [path for folder in entries if folder.name == stem and folder.is_dir() for path in folder.iterdir()]
    kept = [path for path in inside if re.fullmatch(rf"[^.].*{_ENDING}", path.name)]
    return [path for _, path in sorted(found)] + sorted(kept, key=_by_number)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """`sample_2` before `sample_10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _problem(task: Task) -> list[int]:
    """The number a KernelBench problem's name starts with, if it does."""
    found = re.match(r"(\d+)(?:_|$)", task.id.rpartition("/")[2])
    return [int(found[1])] if found else []


def _level(task: Task) -> int | None:
    """As the suite, a folder in the id or a tag says: `kernelbench-l1@...`, `level1/23_Softmax`."""
    said = " ".join((task.suite or "", *task.id.split("/")[:-1], *task.tags))
    found = _LEVEL.search(said.replace("@", " ").lower())
    return int(found[1]) if found else None
