"""Fixtures every test folder may use. No torch here: plain tests stay quick."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, Verdict

ROOT = Path(__file__).resolve().parent.parent

# Child processes find the package also where it is not installed (an offline machine).
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))

# What a task was found to be is kept between runs: not between the runs of a test suite that changes the judge.
_CACHE = tempfile.TemporaryDirectory(prefix="autotriton-cache-")
os.environ["AUTOTRITON_CACHE"] = _CACHE.name

_LONG = ("train/", "tune/", "test_confusion", "live/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run further cases of what is tested anyway")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--all`, further cases (marker `extra`) are left out: the suite stays near fifteen minutes.

    Files that take minutes come first, so that no process is left with one of them when the others are done.
    """
    items.sort(key=lambda item: not any(part in item.nodeid for part in _LONG))
    if config.getoption("--all"):
        return
    left_out = [item for item in items if item.get_closest_marker("extra")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("extra")]


@pytest.fixture
def examples() -> Path:
    return ROOT / "examples"


@pytest.fixture
def make_verdict() -> Callable[..., Verdict]:
    def make(outcome: Outcome = Outcome.CORRECT, **fields: object) -> Verdict:
        known = {"message": "ok", "policy": Policy.STRICT, "tier": Tier.RUN, **fields}
        return Verdict.model_validate({"outcome": outcome, **known})

    return make


@pytest.fixture
def make_attempt(make_verdict: Callable[..., Verdict]) -> Callable[..., Attempt]:
    """An attempt with a verdict, or with an error instead of one."""

    def make(code: str = "code", *, run_id: str = "run", error: str | None = None) -> Attempt:
        return Attempt(
            run_id=run_id,
            task=Task(id="task", source="source"),
            candidate=Candidate(task_id="task", code=code),
            verdict=None if error else make_verdict(),
            error=error,
        )

    return make
