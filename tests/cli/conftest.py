"""A stand-in for the judge, so that the command line is tested on its own and at once."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from autotriton.cli.main import main
from autotriton.types import Policy, Task, Tier


@dataclass(frozen=True)
class FakeOptions:
    policy: Policy = Policy.STRICT
    tier: Tier | None = None
    device: str = "auto"
    allow_degenerate: bool = False
    sandbox: str = "auto"
    targets: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ("eager",)
    seed: int | None = None
    timeout_s: float = 60.0


@dataclass
class FakeJudge:
    """Answers `answer`, or raises it; remembers what it was asked."""

    answer: object = None
    asked: list[tuple[Task, str, FakeOptions]] = field(default_factory=list)

    def __call__(self, task, code, options, *, progress=None):
        self.asked.append((task, code, options))
        if progress is not None:
            progress("rules [not markup]")
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def fake_judge(monkeypatch, make_verdict):
    fake = FakeJudge(make_verdict())
    module = ModuleType("autotriton.judge")
    module.__dict__.update(judge=fake, JudgeOptions=FakeOptions, JUDGE_VERSION="fake")
    monkeypatch.setitem(sys.modules, "autotriton.judge", module)
    return fake


@pytest.fixture
def run(capsys):
    """Runs the command line in this process: (exit code, stdout, stderr)."""

    def run(*args: object) -> tuple[int, str, str]:
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
