"""One of each: exact twins by normal form and by graph, near twins by MinHash."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from autotriton.data.quality.normal import digest, shingles
from autotriton.errors import PrerequisiteError

AnyRow = TypeVar("AnyRow")
_PERMUTATIONS = 96
_LENGTH = 5


class Twins:
    """Remembers what it has seen; the first of its kind is kept."""

    def __init__(self, threshold: float = 0.85, *, by_form: bool = True) -> None:
        """`by_form` calls programs that differ in names only the same."""
        try:
            self._library: Any = importlib.import_module("datasketch")
        except ImportError:
            raise PrerequisiteError(
                "near twins are found with the `datasketch` package", hint="pip install 'autotriton[data]'"
            ) from None
        self._near: Any = self._library.MinHashLSH(threshold=threshold, num_perm=_PERMUTATIONS)
        self._forms: set[str] = set()
        self._by_form = by_form
        self._count = 0

    def why(self, source: str) -> str | None:
        """Why this program adds nothing (`exact`, `near`, `no Python`), or None, and then it is remembered."""
        form = digest(source)
        if form is None:
            return "no Python"
        if not self._by_form:
            form = hashlib.sha256(source.encode()).hexdigest()
        if form in self._forms:
            return "exact"
        sketch = self._library.MinHash(num_perm=_PERMUTATIONS, seed=1)
        sketch.update_batch([shingle.encode() for shingle in sorted(shingles(source, _LENGTH))])
        if self._near.query(sketch):
            return "near"
        self._forms.add(form)
        self._near.insert(str(self._count), sketch)
        self._count += 1
        return None


def distinct(
    rows: Iterable[AnyRow],
    text: Callable[[AnyRow], str],
    dropped: Callable[[AnyRow, str], None],
    threshold: float = 0.95,
    *,
    by_form: bool = True,
) -> Iterator[AnyRow]:
    """The rows whose text is new; of the others `dropped` is told why."""
    twins = Twins(threshold, by_form=by_form)
    for row in rows:
        reason = twins.why(text(row))
        if reason is None:
            yield row
        else:
            dropped(row, reason)
