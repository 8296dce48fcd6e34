"""Packages on disk become drafts: every class and function that closes over itself and whose arguments can be guessed.

Must stay true: nothing harvested is imported or executed here; running it is left to `gather`, in the sandbox. What
gives no draft is counted by reason, and a package without a permissive licence gives none at all.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.data.harvest.closure import Closed, Library, NotClosed, close
from autotriton.data.harvest.guessing import NotGuessed, texts
from autotriton.data.harvest.packages import Package, Problem, SourceFile, open_packages
from autotriton.data.records import Draft, SourceKind
from autotriton.types import Mode, Task

Asker = Callable[[str, str], list[str]]
"""A definition's text and name in, texts of `get_inputs` and `get_init_inputs` out: a language model's answers."""
_SKIPPED_NAMES = re.compile(
    r"^(test_|_make_|register|load|save|init_|build_|create_|get_|is_|has_|convert|export|print|parse|download|main$|checkpoint|_no_|trunc_normal|xavier|kaiming|drop_path$|drop_block)"
)


@dataclass
class Report:
    """What a harvest saw; filled while drafts are taken."""

    packages: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Package -> why its licence keeps it out."""
    problems: list[Problem] = field(default_factory=list)
    """Files that cannot be read or parsed."""
    seen: int = 0
    """Classes and functions looked at."""
    drafts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """For people."""
        text = f"{self.drafts} drafts from {self.seen} definitions of {', '.join(self.packages) or 'no package'}"
        if self.refused:
            text += "; refused: " + ", ".join(f"{name} ({why})" for name, why in self.refused.items())
        if self.problems:
            text += f"; {len(self.problems)} broken files, first {self.problems[0].path} ({self.problems[0].why})"
        return text


def harvest(
    folders: Sequence[str | Path], report: Report | None = None, *, ask: Asker | None = None
) -> Iterator[Draft]:
    """Drafts of every package in the folders, one at a time; the same code in two packages comes once."""
    report = report if report is not None else Report()
    seen: set[str] = set()
    for folder in folders:
        for package in open_packages(Path(folder)):
            yield from _package(package, report, seen, ask)


def _package(package: Package, report: Report, seen: set[str], ask: Asker | None) -> Iterator[Draft]:
    report.problems += package.problems
    if package.licence.spdx is None:
        report.refused[package.label] = package.licence.why
        return
    report.packages.append(package.label)
    library = Library(package)
    for file in package.files.values():
        for name, node in library.definitions(file).items():
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or not _interesting(node):
                continue
            report.seen += 1
            try:
                closed = close(library, file, name)
                if closed.text in seen:
                    report.left_out["the same code again"] += 1
                    continue
                seen.add(closed.text)
                draft = _draft(package, file, name, closed, node, ask)
            except (NotClosed, NotGuessed, RecursionError) as error:
                report.left_out[_reason(error)] += 1
                continue
            report.drafts += 1
            yield draft


def _interesting(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """A class with a forward, or a function that looks like arithmetic on tensors."""
    if isinstance(node, ast.ClassDef):
        return any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
    if _SKIPPED_NAMES.match(node.name) or not node.args.args:
        return False
    text = ast.unparse(node)
    computes = re.search(
        r"torch\.\w+\(|F\.\w+\(|\.(sum|mean|softmax|matmul|view|reshape|transpose|exp|permute)\(", text
    )
    return computes is not None and "return " in text


def _draft(
    package: Package,
    file: SourceFile,
    name: str,
    closed: Closed,
    node: ast.ClassDef | ast.FunctionDef,
    ask: Asker | None,
) -> Draft:
    assert package.licence.spdx is not None
    head = f'"""{name}, from {package.label}, {file.path} ({package.licence.spdx})."""\n\n'
    guessed: list[str] = []
    try:
        guessed = texts(closed, node)
    except NotGuessed:
        if ask is None:
            raise
    if ask is not None:
        guessed += [f"{closed.text}\n\n\n{answer}" for answer in ask(closed.text, name)]
    if not guessed:
        raise NotGuessed("the endpoint gave no usable answer")
    first, *others = [head + text + "\n" for text in guessed]
    task = Task(
        id=f"harvest-{package.name}-{file.module.rpartition('.')[2]}-{name}", source=first, entry=name, mode=Mode.EVAL
    )
    return Draft(
        task=task,
        kind=SourceKind.HARVEST,
        origin=f"{package.label} {file.path}:{name}",
        licence=package.licence.spdx,
        alternatives=tuple(others),
    )


def _reason(error: Exception) -> str:
    """Short enough to count by: names of modules stay, names of arguments go."""
    text = str(error) or type(error).__name__
    return re.sub(r"(argument|bound nowhere|renamed).*", r"\1", text) if isinstance(error, NotGuessed) else text
