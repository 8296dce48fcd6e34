"""Cases that only `--all` runs: how they are marked, and that nothing is computed for them otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def marked(names: Iterable[str], more: frozenset[str]) -> list[Any]:
    """The names as parameters, those of `more` as further cases. A name nobody knows is an error."""
    known = list(names)
    assert more <= set(known), f"no such cases: {sorted(more - set(known))}"
    return [pytest.param(name, marks=pytest.mark.extra) if name in more else name for name in known]


def wanted(cases: Mapping[str, Any], more: frozenset[str], request: pytest.FixtureRequest) -> dict[str, Any]:
    """The cases that this run tests, for the fixture that computes all of them at once."""
    every = request.config.getoption("--all")
    return {name: case for name, case in cases.items() if every or name not in more}
