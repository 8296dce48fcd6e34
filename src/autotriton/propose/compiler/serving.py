"""`TemplatesServer`: the templates engine in a process that stays, for thousands of tasks. No torch in this process.

One question at a time, each with a deadline; a child that hangs or dies costs its task and is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, Any

from autotriton.child import child_command, python_path
from autotriton.errors import ProposerError
from autotriton.propose.compiler.proposer import QUIET, request_of
from autotriton.types import Attempt, Candidate, Task

CHILD = "autotriton.propose.compiler.templates.server"
_PER_CHILD = 400
"""Tasks one child serves; what they leave behind in it stays bounded."""
_START_S = 120.0
"""On top of the deadline of a child's first task: importing torch on a busy machine."""


class TemplatesServer:
    """A proposer for one thread. `close` ends its child."""

    name = "compiler:templates"

    def __init__(self, timeout_s: float = 60.0) -> None:
        self.timeout_s = timeout_s
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
        question = {**request_of(task).model_dump(mode="json"), "title": task.id}
        patience_s = self.timeout_s + (_START_S if not child.served else 0.0)
        answer = child.ask(question, patience_s)
        if answer is None or child.served >= _PER_CHILD:
            self.close()
        if answer is None:
            return {"error": f"the capturing process {child.trouble}"}
        return answer


class _Child:
    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            child_command(CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **QUIET, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path()},
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_read_lines, args=(self._process.stdout, self._lines), daemon=True).start()
        self._end = weakref.finalize(self, _end, self._process, self._errors)
        self.served = 0
        self.trouble = ""

    def ask(self, question: dict[str, Any], patience_s: float) -> dict[str, Any] | None:
        """None where no answer came; `trouble` says why."""
        assert self._process.stdin is not None
        self.served += 1
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=patience_s)
        except queue.Empty:
            self.trouble = f"was stopped after {patience_s:g} s"
            return None
        if line:
            return dict(json.loads(line))
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self.trouble = f"ended with code {self._process.wait()} and no answer: {' '.join(last)}"
        return None

    def close(self) -> None:
        self._end()


def _read_lines(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Every line, then an empty one for the end."""
    for line in pipe:
        lines.put(line)
    lines.put(b"")


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, errors):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
