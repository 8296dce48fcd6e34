"""The loop as it runs, on stderr: one line per attempt, and below them what happens right now.

Nothing where stderr is not a terminal. Text of candidates and proposers is never read as markup, nor as commands to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from autotriton.cli.show import plain
from autotriton.loop.progress import Doing, Event, Failed, Judged, Progress
from autotriton.report.numbers import milliseconds
from autotriton.types import Attempt


@contextmanager
def watching(console: Console | None = None) -> Iterator[Progress]:
    """Shows the events it is given, until the end of the block."""
    out = console or Console(stderr=True, emoji=False)
    if not out.is_terminal:
        yield lambda event: None
        return
    with out.status("looking at the task") as status:
        shown = _Shown()

        def show(event: Event) -> None:
            if isinstance(event, Doing):
                status.update(shown.line(event))
            elif isinstance(event, Judged):
                shown.best = event.best
                out.print(_judged(event.attempt), soft_wrap=True, highlight=False)
            elif isinstance(event, Failed):
                out.print(f"[yellow]gave up[/]  {plain(event.who)}: {plain(event.cause)}", highlight=False)

        yield show


class _Shown:
    """The best attempt so far stays on the line whatever else happens."""

    def __init__(self) -> None:
        self.best: Attempt | None = None

    def line(self, event: Doing) -> str:
        detail = f": {plain(event.detail)}" if event.detail else ""
        text = f"{plain(event.proposer)}, candidate {event.number}, {event.what}{detail}"
        return text + (f" [dim](best so far: {_name(self.best)})[/]" if self.best is not None else "")


def _name(attempt: Attempt) -> str:
    timing = attempt.verdict.timing if attempt.verdict is not None else None
    return plain(attempt.candidate.proposer) + (f", {milliseconds(timing.median_ms)} ms" if timing else "")


def _judged(attempt: Attempt) -> str:
    if attempt.verdict is None:
        return f"[yellow]not judged[/]  {plain(attempt.candidate.proposer)}: {plain(attempt.error or '')}"
    colour = "green" if attempt.verdict.accepted else "red"
    return f"[{colour}]{attempt.verdict.outcome.value}[/]  {_name(attempt)}"
