"""Stand-ins for examiners and proposers, and runs made up through the real record types."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from autotriton.bench.examine import Examined, Job
from autotriton.bench.records import BenchRun, Suite, SuiteTask
from autotriton.store import RunInfo
from autotriton.types import (
    Attempt,
    Candidate,
    Machine,
    Official,
    Outcome,
    Policy,
    Speedup,
    Task,
    Tier,
    Timing,
    Verdict,
)


def verdict(outcome: Outcome = Outcome.CORRECT, **more: object) -> Verdict:
    known = {"message": str(outcome), "policy": Policy.STRICT, "tier": Tier.RUN, **more}
    return Verdict.model_validate({"outcome": outcome, **known})


@dataclass
class FakeExaminer:
    """Accepts whatever holds `good`; an exception or an error text by code. Remembers what it judged."""

    answers: dict[str, Verdict | str | BaseException] = field(default_factory=dict)
    judged: list[tuple[str, str]] = field(default_factory=list)
    closed: bool = False
    executed: set[str] = field(default_factory=set)
    """Codes that pass the suite's own protocol, whatever the verdict."""

    def examine(self, jobs: Iterable[Job]) -> Iterator[Examined]:
        for job in jobs:
            code = job.candidate.code
            self.judged.append((job.task.id, code))
            found = self.answers.get(code) or verdict(Outcome.CORRECT if "good" in code else Outcome.WRONG)
            if isinstance(found, BaseException):
                raise found
            if isinstance(found, str):
                yield Examined(job, None, error=found)
            else:
                yield Examined(job, found, Official(called=True, executed=found.accepted or code in self.executed))

    def close(self) -> None:
        self.closed = True


class FakeProposer:
    """Answers by task: texts, or an exception to be raised among them. Remembers which tasks it was asked about."""

    name = "fake"

    def __init__(self, answers: dict[str, Sequence[str | Exception]] | None = None, default: Sequence[str] = ("good",)):
        self.answers, self.default = answers or {}, default
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        self.asked.put(task.id)
        for text in self.answers.get(task.id, self.default):
            if isinstance(text, Exception):
                raise text
            yield Candidate(task_id=task.id, code=text, proposer=self.name, completion=f"```{text}```")

    @property
    def names(self) -> list[str]:
        return sorted(self.asked.get() for _ in range(self.asked.qsize()))


@pytest.fixture
def tasks() -> list[Task]:
    return [Task(id=name, source=f"# {name}", suite="tasks@v") for name in ("one", "two", "three")]


@pytest.fixture
def suite(tasks: list[Task]) -> Suite:
    return Suite(name="tasks", version="v", tasks=tuple(SuiteTask(id=task.id) for task in tasks))


@pytest.fixture
def fakes() -> SimpleNamespace:
    """Tests cannot import from here, so they are handed the names."""
    return SimpleNamespace(examiner=FakeExaminer, proposer=FakeProposer, verdict=verdict)


@pytest.fixture
def make() -> Callable[..., Verdict]:
    return verdict


def timing(ms):
    return Timing(median_ms=ms, p20_ms=ms * 0.98, p80_ms=ms * 1.02, samples=40, method="cuda events")


@pytest.fixture
def attempt():
    """An attempt at a task. `eager` and `compile` are speed-ups: a ratio, or (low, ratio)."""

    def make(task, outcome="correct", *, sample=0, official=None, error=None, eager=None, compile=None, **fields):
        asked = {"eager": eager, "compile": compile}
        ratios = {n: r if isinstance(r, tuple) else (r * 0.99, r) for n, r in asked.items() if r is not None}
        speedups = {name: Speedup(ratio=ratio, low=low, high=ratio * 1.02) for name, (low, ratio) in ratios.items()}
        measured = (
            {"timing": timing(1.0), "baselines": {n: timing(r) for n, (_, r) in ratios.items()}} if ratios else {}
        )
        verdict = Verdict.model_validate(
            {
                "outcome": Outcome(outcome),
                "message": outcome,
                "policy": Policy.STRICT,
                "tier": Tier.TIME if ratios else Tier.RUN,
                "speedups": speedups,
                **measured,
                **fields,
            }
        )
        protocol = None if official is None else Official(called=official[0], executed=official[1])
        return Attempt(
            run_id="run-1",
            task=Task(id=task, source="source"),
            candidate=Candidate(task_id=task, code=f"# {task} {sample}", proposer="model:tiny"),
            verdict=None if error else verdict,
            error=error,
            sample=sample,
            official=protocol,
        )

    return make


@pytest.fixture
def bench_run():
    """A run over tasks named by the string, e.g. "a b c"."""

    def make(
        tasks, *attempts, k=1, run_id="run-1", name="kernelbench-l1", version="abc123", skipped=None, excluded=None
    ):
        suite = Suite(
            name=name,
            version=version,
            tasks=tuple(SuiteTask(id=task, families=("matmul",), source="source") for task in tasks.split()),
            skipped=skipped or {},
            excluded=excluded or {},
        )
        info = RunInfo(
            id=run_id,
            verb="bench",
            config={"proposer": "model:tiny", "k": k},
            commit="0" * 40,
            started="2025-01-01T00:00:00+00:00",
            machine=Machine(gpu="NVIDIA H200", cpu="a cpu", cores=2, torch="2.11.0", triton="3.6.0"),
            versions={"torch": "2.11.0"},
            judge_version="7",
        )
        return BenchRun(info, suite, tuple(attempts))

    return make
