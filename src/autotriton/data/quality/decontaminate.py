"""Benchmarks stay out of the training data: by normal form, by operator graph with shapes, and by runs of words.

The benchmark's files are read from a checkout the user names; none of their text is kept here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.data.quality.normal import digest, shingles
from autotriton.errors import UsageError
from autotriton.syntax import parse_source
from autotriton.types import Record

_LENGTH = 12
_OVERLAP = 0.6
_LEAST_WORDS = 30
"""Programs with fewer runs of words than this are told apart by form and graph alone: all short programs are alike."""
_LEAST_CHARACTERS = 300
_BOILERPLATE = ("get_inputs", "get_init_inputs")


class Contaminated(Record):
    """A row that was removed, and what it is too close to."""

    row: str
    benchmark: str
    """File of the benchmark, relative to its root."""
    how: str
    """`form`, `graph` or `words`."""
    overlap: float | None = None


@dataclass
class Benchmarks:
    """What must not be trained on."""

    forms: dict[str, str] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    """Operator graphs with shapes, for tasks that were surveyed."""
    words: dict[str, set[str]] = field(default_factory=dict)
    _by_word: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, source: str) -> None:
        """One file, whole, and each of its classes and functions."""
        for text in (source, *pieces(source)):
            form = digest(text)
            if form is not None:
                self.forms.setdefault(form, name)
        words = shingles(core(source), _LENGTH)
        if len(words) >= _LEAST_WORDS:
            self.words[name] = words
            for word in words:
                self._by_word.setdefault(word, set()).add(name)

    def add_graph(self, name: str, shaped_graph: str) -> None:
        self.graphs.setdefault(shaped_graph, name)

    def find(self, row: str, source: str, shaped_graph: str | None = None) -> Contaminated | None:
        """The benchmark task this program is too close to."""
        if shaped_graph is not None and shaped_graph in self.graphs:
            return Contaminated(row=row, benchmark=self.graphs[shaped_graph], how="graph")
        for text in (source, *pieces(source)):
            form = digest(text)
            if form is not None and form in self.forms:
                return Contaminated(row=row, benchmark=self.forms[form], how="form")
        return self._overlapping(row, source)

    def _overlapping(self, row: str, source: str) -> Contaminated | None:
        words = shingles(core(source), _LENGTH)
        if len(words) < _LEAST_WORDS:
            return None
        near = {name for word in words for name in self._by_word.get(word, ())}
        for name in sorted(near):
            shared = len(words & self.words[name]) / min(len(words), len(self.words[name]))
            if shared >= _OVERLAP:
                return Contaminated(row=row, benchmark=name, how="words", overlap=round(shared, 3))
        return None


def read(roots: Iterable[Path]) -> Benchmarks:
    """Every Python file of the checkouts that defines something worth comparing."""
    found = Benchmarks()
    for root in roots:
        files = sorted(root.rglob("*.py"))
        if not files:
            raise UsageError(f"{root} holds no benchmark: not one Python file", hint="name a checkout")
        for path in files:
            text = _text(path)
            if text is not None:
                found.add(str(path.relative_to(root)), text)
    return found


def core(source: str) -> str:
    """Without what every task has: imports and the functions that make inputs."""
    kept = [text for node, text in _parts(source) if not isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(kept) if kept else source


def pieces(source: str) -> Iterator[str]:
    """Its classes and functions that compute something, each by itself; short ones are everybody's."""
    for node, text in _parts(source):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and len(text) >= _LEAST_CHARACTERS:
            yield text


def _parts(source: str) -> list[tuple[ast.stmt, str]]:
    """What stands at the top level, but for the functions that make inputs; nothing of what cannot be walked."""
    try:
        tree = parse_source(source)
        kept = [node for node in tree.body if getattr(node, "name", "") not in _BOILERPLATE]
        return [(node, ast.unparse(node)) for node in kept]
    except (SyntaxError, ValueError, RecursionError):
        return []


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
