"""`TemplatesServer`: the templates engine in a process that stays, for thousands of tasks. No torch in this process.

One question at a time, each with a deadline; a child that hangs or dies costs its task and is replaced.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Sequence
from typing import Any

from autotriton.child import LineChild
from autotriton.errors import ProposerError
from autotriton.propose.compiler.proposer import QUIET, request_of
from autotriton.types import Attempt, Candidate, Task

CHILD = "autotriton.propose.compiler.templates.server"
_PER_CHILD = 400
"""Tasks one child serves; what they leave behind in it stays bounded."""
_START_S = 120.0
"""On top of the deadline of a child's first task: importing torch on a busy machine."""


class TemplatesServer:
    """A proposer for one thread. `close` ends its child. `way` is a name of `templates/options.py`."""

    name = "compiler:templates"

    def __init__(self, timeout_s: float = 60.0, way: str = "") -> None:
        self.timeout_s, self.way = timeout_s, way
        self._child: _Child | None = None

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        found = self._asked(task)
        if "error" in found:
            raise ProposerError(f"task {task.id} could not be captured: {found['error']}")
        candidate = Candidate(task_id=task.id, code=found["code"], proposer=self.name, choices=found["choices"])
        if candidate.code not in {attempt.candidate.code for attempt in history}:
            yield candidate

    def renew(self) -> None:
        """The next task gets a child nobody used: for programs that may leave torch changed."""
        self.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None

    def _asked(self, task: Task) -> dict[str, Any]:
        child = self._child = self._child or _Child()
        question = {**request_of(task).model_dump(mode="json"), "title": task.id, "way": self.way}
        patience_s = self.timeout_s + (_START_S if not child.served else 0.0)
        answer = child.ask(question, patience_s)
        if answer is None or child.served >= _PER_CHILD:
            self.close()
        if answer is None:
            return {"error": f"the capturing process {child.trouble}"}
        return answer


class _Child:
    def __init__(self) -> None:
        self._process = LineChild(CHILD, {**QUIET, "OMP_NUM_THREADS": "1"})
        self.served = 0
        self.trouble = ""

    def ask(self, question: dict[str, Any], patience_s: float) -> dict[str, Any] | None:
        """None where no answer came; `trouble` says why."""
        self.served += 1
        self._process.send(json.dumps(question))
        try:
            line = self._process.line(patience_s)
        except queue.Empty:
            self.trouble = f"was stopped after {patience_s:g} s"
            return None
        if line:
            return dict(json.loads(line))
        code, last = self._process.ending()
        self.trouble = f"ended with code {code} and no answer: {last}"
        return None

    def close(self) -> None:
        self._process.close()
