"""A benchmark as it runs, and its last lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotriton.bench.runner import Begun, Came, Dropped, Finished
from autotriton.cli.bench_progress import duration, watching


@pytest.mark.parametrize(("seconds", "said"), [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds, said):
    assert duration(seconds) == said


def test_plain_lines_count_and_estimate_from_this_sessions_speed(make_attempt):
    out, clock = io.StringIO(), iter([0.0, 0.0, 10.0, 20.0])
    with watching(Console(file=out, width=200), now=lambda: next(clock)) as tell:
        tell(Begun(10, 4, 2))
        tell(Came(1))
        tell(Finished(make_attempt()))
        tell(Dropped("other", 3, "the proposer has no more"))
        tell(Finished(make_attempt(error="broke [red]badly[/]")))
    assert out.getvalue().splitlines() == [
        "4 of 10 were done before",
        "[5/10] task: correct; 3 accepted, 50 s left",
        "[8/10] other: 3 without an attempt, the proposer has no more",
        "[9/10] task: not judged, broke [red]badly[/]; 3 accepted, 4 s left",
    ]


def test_a_terminal_gets_bars(make_attempt):
    out = io.StringIO()
    with watching(Console(file=out, width=120, force_terminal=True)) as tell:
        tell(Begun(2, 0))
        tell(Came(2))
        tell(Finished(make_attempt()))
        tell(Finished(make_attempt(error="broke")))
    assert "1 accepted" in out.getvalue()
    assert "2/2" in out.getvalue()
    assert "task: not judged, broke" in out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_gives_the_terminal_no_commands(make_attempt, terminal):
    out = io.StringIO()
    with watching(Console(file=out, width=200, force_terminal=terminal)) as tell:
        tell(Begun(1, 0))
        tell(Finished(make_attempt(error="broke \x1b[2J\x1b]0;title\x07")))
    assert "broke \\x1b[2J\\x1b]0;title\\x07" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()
