"""A benchmark as it runs, on stderr: two bars with the time left on a terminal, one line per attempt elsewhere.

Text of tasks and candidates is never read as markup, nor by the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autotriton.bench.runner import Begun, Came, Dropped, Event, Finished, Tell
from autotriton.cli.show import plain
from autotriton.types import Attempt

_MOST_TEXT = 160


@contextmanager
def watching(console: Console | None = None, now: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """Shows the events it is given, until the end of the block."""
    out = console or Console(stderr=True, emoji=False)
    if not out.is_terminal:
        yield _Lines(out, now)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        yield _Bars(progress)


class _Count:
    """How far a run is."""

    def __init__(self) -> None:
        self.total = self.done = self.accepted = self.came = 0

    def add(self, event: Event) -> None:
        if isinstance(event, Begun):
            self.total, self.done, self.accepted, self.came = event.total, event.done, event.accepted, event.done
        elif isinstance(event, Came):
            self.came += event.count
        elif isinstance(event, Dropped):
            self.done += event.count
        else:
            self.done += 1
            verdict = event.attempt.verdict
            self.accepted += verdict is not None and verdict.accepted


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._count = progress, _Count()
        self._proposed = progress.add_task("proposed", total=None, said="")
        self._judged = progress.add_task("judged", total=None, said="")

    def __call__(self, event: Event) -> None:
        count, bars = self._count, self._progress
        count.add(event)
        if isinstance(event, Begun):
            # The earlier run's share must not count for the speed of this one, so bars begin where it ended.
            bars.reset(self._proposed, total=count.total, completed=count.came, said="")
            bars.reset(self._judged, total=count.total, completed=count.done, said="")
        bars.update(self._proposed, completed=count.came)
        bars.update(self._judged, completed=count.done, said=f"{count.accepted} accepted")
        if isinstance(event, Finished) and event.attempt.verdict is None:
            bars.console.print(f"[yellow]{plain(line(event.attempt))}[/]", highlight=False, soft_wrap=True)


class _Lines:
    def __init__(self, out: Console, now: Callable[[], float]) -> None:
        self._out, self._now, self._count = out, now, _Count()
        self._started, self._before = now(), 0

    def __call__(self, event: Event) -> None:
        count = self._count
        count.add(event)
        if isinstance(event, Begun):
            self._started, self._before = self._now(), event.done
            if event.done:
                self._say(f"{event.done} of {event.total} were done before")
        elif isinstance(event, Finished):
            self._say(f"[{count.done}/{count.total}] {line(event.attempt)}; {count.accepted} accepted{self._left()}")
        elif isinstance(event, Dropped) and event.count:
            self._say(f"[{count.done}/{count.total}] {event.task_id}: {event.count} without an attempt, {event.why}")

    def _left(self) -> str:
        done, left = self._count.done - self._before, self._count.total - self._count.done
        if done <= 0 or left <= 0:
            return ""
        return f", {duration((self._now() - self._started) / done * left)} left"

    def _say(self, text: str) -> None:
        self._out.print(plain(text), highlight=False, soft_wrap=True)


def line(attempt: Attempt) -> str:
    """An attempt on one line."""
    place = attempt.task.id + (f" #{attempt.sample}" if attempt.sample else "")
    verdict = attempt.verdict
    if verdict is None:
        return f"{place}: not judged, {' '.join((attempt.error or '').split())[:_MOST_TEXT]}"
    speeds = [f"{found.ratio:.2f}x {name}" for name, found in verdict.speedups.items()]
    return ", ".join([f"{place}: {verdict.outcome.value}", *speeds])


def duration(seconds: float) -> str:
    """As people say it: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
