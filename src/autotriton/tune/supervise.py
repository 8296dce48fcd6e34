"""One search: workers are started until one comes to an end, and every measurement any of them made is kept.

A worker that dies or hangs while it tries a setting is replaced by one that leaves this setting out. The budget is
wall time of the workers from their first word on; until then they import torch. Waiting at a gate is free too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autotriton.tune.messages import ALONE, Request
from autotriton.tune.search import Measurement, worth_tuning
from autotriton.tune.session import Session
from autotriton.tune.tiles import Setting, Settings
from autotriton.types import Task

_WORKER = "worker"
START_S = 90.0
"""For a worker's first word."""
_GRACE_S = 20.0
"""Beyond the budget, to finish what was begun."""
_WORKERS = 6
"""At most this many, one after another, where settings kill them."""


class Gate(Protocol):
    """Where others use the GPU too: entered around work that may run beside theirs, and around what is timed."""

    def started(self, group: int) -> None:
        """A worker runs in this process group: others may have it stopped for a moment while they time something."""

    def shared(self) -> AbstractContextManager[None]: ...

    def alone(self) -> AbstractContextManager[None]: ...


class Open:
    """Nobody else is there."""

    def started(self, group: int) -> None:
        pass

    def shared(self) -> AbstractContextManager[None]:
        return nullcontext()

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class Plan:
    """What is searched, and within which limits."""

    task: Task
    code: str
    choices: dict[str, tuple[Setting, ...]]
    device: str
    capability: str | None
    jobs: int
    budget_s: float
    stall_s: float


class Search:
    """What is known so far."""

    def __init__(
        self,
        plan: Plan,
        gate: Gate,
        report: Callable[[str], None],
        known: Callable[[dict[str, dict[str, int]]], Settings],
    ) -> None:
        self.plan, self._gate, self._report, self._known = plan, gate, report, known
        self.measured: dict[str, dict[int, Measurement]] = {}
        self.dropped: dict[str, dict[int, str]] = {}
        self.finished: set[str] = set()
        """Wrappers whose search came to its end."""
        self.cached: Settings = {}
        self.worth: set[str] | None = None
        """Wrappers that take enough time to be tuned; None until a worker has run the model."""
        self._trying: tuple[str, int] | None = None
        self._lost = False
        self._entered: AbstractContextManager[None] | None = None
        self._deadline = 0.0

    def run(self) -> None:
        self._deadline = time.monotonic() + self.plan.budget_s
        with tempfile.TemporaryDirectory(prefix="autotriton-tune-") as folder:
            for _ in range(_WORKERS):
                if not self._work(Path(folder)):
                    return

    def _work(self, folder: Path) -> bool:
        """One worker until it ends; true when another one should go on."""
        (folder / "candidate.py").write_text(self.plan.code, encoding="utf-8")
        self._trying, self._lost = None, False
        started, session = time.monotonic(), Session(self._request(folder), folder, _WORKER)
        self._gate.started(session.process.pid)
        try:
            event = session.next(START_S)
            self._deadline += time.monotonic() - started
            while event is not None:
                if event["event"] == "end":
                    return False
                self._take(event, session)
                event = session.next(self._patience_s())
        finally:
            ending = session.end()
            self._leave()
        if self._trying is not None:
            self._drop(*self._trying, ending)
        elif not self._lost:
            self._report(f"the tuning process failed: {ending}")
        return (self._trying is not None or self._lost) and self._left_s() > 0

    def _request(self, folder: Path) -> Request:
        known = {
            name: {number: (one.ms, one.repetitions) for number, one in found.items()}
            for name, found in self.measured.items()
        }
        return Request(
            task=self.plan.task,
            code_path=str(folder / "candidate.py"),
            choices=self.plan.choices,
            device=self.plan.device,
            capability=self.plan.capability,
            jobs=self.plan.jobs,
            known=known,
            dropped={name: tuple(found) for name, found in self.dropped.items()},
        )

    def _take(self, event: dict[str, Any], session: Session) -> None:
        kind = event["event"]
        if kind == "enter":
            self._enter(event["gate"])
            session.answer(self._left_s())
        elif kind == "leave":
            self._leave()
        elif kind == "calls":
            session.answer(self._left_s(), skip=self._take_calls(event["wrappers"]))
        elif kind == "trying":
            self._trying = (event["wrapper"], event["setting"])
        elif kind == "measured":
            self._trying = None
            found = Measurement(event["ms"], event["repetitions"])
            self.measured.setdefault(event["wrapper"], {})[event["setting"]] = found
        elif kind == "dropped":
            self._trying, self._lost = None, event["lost"]
            self._drop(event["wrapper"], event["setting"], event["reason"])
        elif kind == "finished":
            self.finished.add(event["wrapper"])

    def _take_calls(self, wrappers: dict[str, Any]) -> list[str]:
        """Names of wrappers whose best setting is known already."""
        self.worth = set(worth_tuning({name: told["ms"] for name, told in wrappers.items()}))
        self.cached = self._known({name: told["calls"] for name, told in wrappers.items()})
        return list(self.cached)

    def _drop(self, name: str, setting: int, reason: str) -> None:
        self.dropped.setdefault(name, {})[setting] = reason
        self.measured.get(name, {}).pop(setting, None)
        self._report(f"{name}: setting {self.plan.choices[name][setting]} is left out: {reason}")

    # --- time ---------------------------------------------------------------------------------------------

    def _left_s(self) -> float:
        return self._deadline - time.monotonic()

    def _patience_s(self) -> float:
        left = max(0.0, self._left_s() + _GRACE_S)
        return min(self.plan.stall_s, left) if self._trying is not None else left

    def _enter(self, gate: str) -> None:
        asked = time.monotonic()
        self._leave()
        self._entered = self._gate.alone() if gate == ALONE else self._gate.shared()
        self._entered.__enter__()
        self._deadline += time.monotonic() - asked

    def _leave(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.__exit__(None, None, None)
