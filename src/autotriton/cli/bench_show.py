"""What a benchmark run found, in a few lines on stdout; `autotriton report` has the rest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autotriton.bench.counts import Counts, count
from autotriton.bench.records import BenchRun

_PIPE_WIDTH = 120


def summary(run: BenchRun, path: Path, seconds: float) -> dict[str, Any]:
    """For programs."""
    return {
        "run": str(path),
        "run_id": run.info.id,
        "suite": run.suite.name,
        "suite_version": run.suite.version,
        "proposer": run.info.config.get("proposer"),
        "judge_version": run.info.judge_version,
        "machine": run.info.machine.model_dump(mode="json"),
        **asdict(count(run)),
        "excluded": run.excluded,
        "skipped": run.suite.skipped,
        "seconds": round(seconds, 1),
    }


def show(run: BenchRun, path: Path, console: Console | None = None) -> None:
    out = console or _screen()
    found = count(run)
    title = f"{run.suite.name} at {run.suite.version[:18]}, {run.info.config.get('proposer')}, {found.tasks} tasks"
    out.print(escape(title), soft_wrap=True, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    columns = _columns(found)
    for name, _ in columns:
        table.add_column(name, justify="right")
    table.add_row(*(value for _, value in columns))
    out.print(table)
    if found.outcomes:
        said = ", ".join(f"{number} {name}" for name, number in found.outcomes.items())
        out.print(f"outcomes  {said}", soft_wrap=True, highlight=False)
    for word, left_out in (("excluded", run.excluded), ("skipped", run.suite.skipped)):
        for task, why in left_out.items():
            out.print(f"[yellow]{word}[/]  {escape(task)}: {escape(why)}", soft_wrap=True, highlight=False)
    out.print(f"run       {escape(str(path))}", soft_wrap=True, highlight=False)


def _columns(found: Counts) -> list[tuple[str, str]]:
    columns = [
        ("judged", str(found.judged)),
        ("call", str(found.called)),
        ("exec official", str(found.executed)),
        ("exec checked", f"[bold]{found.checked}[/]"),
    ]
    columns += [(f"faster than {name}", str(number)) for name, number in found.fast.items()]
    columns += [(f"mean over {name}", f"{value:.2f}x") for name, value in found.geometric_mean.items()]
    return columns + ([("not scored", f"[yellow]{found.unscored}[/]")] if found.unscored else [])


def _screen() -> Console:
    console = Console(emoji=False)
    return console if console.is_terminal else Console(width=_PIPE_WIDTH, emoji=False)
