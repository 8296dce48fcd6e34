"""Verdicts one by one, for callers that wait for many at the same time on an event loop.

`Grader` serves a trainer that wants a whole step's verdicts together; this serves engines that ask for each answer by
itself. It is the same process and the same judge. Must stay true: every question is answered, by a verdict or by the
reason there is none, and nothing here is bound to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

from autotriton.judge import JudgeOptions
from autotriton.train.grading import PATIENCE, Grade, end, grades, launch, message
from autotriton.types import Task


class Asking:
    """The judge's process, started with the first question and again when it died. Any thread and any loop may ask."""

    def __init__(
        self, options: JudgeOptions, workers: int | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._options, self._workers, self._environment = options, workers, environment
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._child: _Child | None = None

    async def grade(self, task: Task, code: str) -> Grade:
        """What became of one answer; asked once more if the judge's process ended over it or another."""
        for _ in range(2):
            # A pipe can be full and a process takes a moment to start: neither may hold up the loop.
            child, future = await asyncio.to_thread(self._put, task, code)
            grade = await self._awaited(child, future)
            if grade is not None:
                return grade
        return Grade(-1, None, "the judge's process ended")

    def close(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            end(child.process)

    def _put(self, task: Task, code: str) -> tuple[_Child, Future[Grade | None]]:
        with self._lock:
            if self._child is None or self._child.ended:
                self._child = _Child(self._options, self._workers, self._environment)
            number = next(self._numbers)
            return self._child, self._child.put(number, message(self._options, number, task, code))

    async def _awaited(self, child: _Child, future: Future[Grade | None]) -> Grade | None:
        """Others may be before it for long; a judge that says nothing to anyone for that long is dead."""
        patience_s = PATIENCE * self._options.timeout_s
        waiting = asyncio.wrap_future(future)
        while not (await asyncio.wait({waiting}, timeout=patience_s))[0]:
            if time.monotonic() - child.heard > patience_s:
                child.process.kill()  # its reader then answers everyone
        return waiting.result()


class _Child:
    """One process and those who wait for it; when it ends, they are told None."""

    def __init__(self, options: JudgeOptions, workers: int | None, environment: Mapping[str, str]) -> None:
        self.process = launch(options, workers, environment)
        self.heard = time.monotonic()
        self.ended = False
        self._lock = threading.Lock()
        self._open: dict[int, Future[Grade | None]] = {}
        threading.Thread(target=self._listen, name="verdicts", daemon=True).start()

    def put(self, number: int, line: bytes) -> Future[Grade | None]:
        future: Future[Grade | None] = Future()
        future.set_running_or_notify_cancel()  # a caller that stops waiting must not keep the reader from answering
        with self._lock:
            if self.ended:
                future.set_result(None)
                return future
            if not self._open:
                self.heard = time.monotonic()  # silence while nobody asked says nothing
            self._open[number] = future
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError, OSError, ValueError):  # it ended: the reader notices and tells
            self.process.stdin.write(line)
            self.process.stdin.flush()
        return future

    def _listen(self) -> None:
        try:
            for grade in grades(self.process):
                self.heard = time.monotonic()
                with self._lock:
                    future = self._open.pop(grade.number, None)
                if future is not None:
                    future.set_result(grade)
        finally:
            with self._lock:
                self.ended = True
                left, self._open = list(self._open.values()), {}
            for future in left:
                future.set_result(None)
            self.process.kill()
            self.process.wait()
