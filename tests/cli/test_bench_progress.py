"""A benchmark as it runs, and its last lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotriton.bench.records import BenchRun, Suite, SuiteTask
from autotriton.bench.runner import Begun, Came, Dropped, Finished
from autotriton.cli import bench_show
from autotriton.cli.bench_progress import duration, watching
from autotriton.store import Store
from autotriton.types import Outcome, Speedup


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


def test_the_last_lines_name_counts_speeds_and_what_was_left_out(tmp_path, make_attempt, make_verdict):
    with Store(tmp_path).create("bench", {"proposer": "files:x"}) as run:
        suite = Suite(
            name="tasks",
            version="v1",
            tasks=(SuiteTask(id="task"), SuiteTask(id="large")),
            skipped={"large": "needs [much]"},
        )
        fast = {"eager": Speedup(ratio=4.0, low=3.0, high=5.0), "compile": Speedup(ratio=1.0, low=0.9, high=1.1)}
        first = make_attempt().model_copy(update={"verdict": make_verdict(speedups=fast)})
        second = make_attempt("other").model_copy(update={"verdict": make_verdict(Outcome.WRONG), "sample": 1})
        broken = make_attempt("third", error="broke").model_copy(update={"sample": 2})
        found = BenchRun(run.info, suite, (first, second, broken))
    out = io.StringIO()
    bench_show.show(found, run.path, Console(file=out, width=200))
    text = out.getvalue()
    assert "tasks at v1, files:x, 2 tasks" in text
    assert "outcomes  1 correct, 1 wrong" in text
    assert "skipped  large: needs [much]" in text
    assert "4.00x" in text
    counts = bench_show.summary(found, run.path, 1.25)
    assert (counts["judged"], counts["checked"], counts["unscored"]) == (2, 1, 1)
    assert counts["fast"] == {"eager": 1, "compile": 0}
    assert counts["geometric_mean"] == {"eager": pytest.approx(4.0), "compile": pytest.approx(1.0)}
