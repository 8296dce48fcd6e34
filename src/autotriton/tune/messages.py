"""What the tuner and its worker process say to each other: one request as a file, then lines of JSON on two pipes.

The worker tells and asks; the tuner only answers. Must stay true: what was measured reaches the tuner before the next
setting is tried, so that a worker that dies takes nothing with it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from autotriton.tune.tiles import Setting
from autotriton.types import Record, Task

SHARED, ALONE = "shared", "alone"
"""Gates: `shared` around GPU work that others may run beside, `alone` around what is timed."""


class Request(Record):
    """What a worker is started with."""

    task: Task
    code_path: str
    choices: dict[str, tuple[Setting, ...]]
    """For each wrapper all settings, the file's own first; they are spoken of by their place in here."""
    device: str
    """cuda, or cpu: Triton's interpreter, where times mean nothing but everything else is as on a GPU."""
    capability: str | None = None
    """Compute capability, or the architecture's name on AMD; None: kernels are not compiled ahead."""
    jobs: int = 1
    """Compilations at once."""
    known: dict[str, dict[int, tuple[float, int]]] = Field(default_factory=dict)
    """(median ms, repetitions) of what an earlier worker measured."""
    dropped: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Settings that cannot be used, the ones that ended an earlier worker included."""


class RaceRequest(Record):
    """What a race's worker is started with."""

    task: Task
    paths: dict[int, str]
    """The candidates' files by their numbers."""
    device: str
    capability: str | None = None
    jobs: int = 1


class Parent:
    """The worker's end of the pipes, and its share of the time."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._lines = os.fdopen(incoming, encoding="utf-8")
        self._outgoing = outgoing
        self._deadline = time.monotonic()

    def tell(self, event: str, **more: Any) -> None:
        os.write(self._outgoing, (json.dumps({"event": event, **more}) + "\n").encode())

    def ask(self, event: str, **more: Any) -> dict[str, Any]:
        """One question; every answer also says how much time is left. No answer: nobody is there any more."""
        self.tell(event, **more)
        line = self._lines.readline()
        if not line:
            os._exit(0)
        answer: dict[str, Any] = json.loads(line)
        self._deadline = time.monotonic() + float(answer["left_s"])
        return answer

    @contextmanager
    def gate(self, kind: str) -> Iterator[None]:
        """Waits until the GPU may be used this way; the wait costs none of the worker's time."""
        self.ask("enter", gate=kind)
        yield
        self.tell("leave")

    def left_s(self) -> float:
        return self._deadline - time.monotonic()
