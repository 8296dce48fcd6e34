"""`autotriton train compare RUN...`: training runs side by side, from their configs and metrics alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from autotriton.store import Run
    from autotriton.train.comparing import Change, Comparison, Row, Window

_WINDOW = 5
_GAP = 2
"""Columns of the screen between those of a table."""


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs of one kind, by id or by folder.")],
    store: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs are recorded.")] = Path("runs"),
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves: .png or .svg.")] = None,
    window: Annotated[int, typer.Option(metavar="N", min=1, help="Steps a mean is taken over.")] = _WINDOW,
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Show training runs side by side: what differs in their configs, and their metrics at the start and at the end.

    A metric is its mean over the first N steps -> its mean over the last N.
    The shortest run's end is the end for all: longer runs are cut there, and
    a line says so. Where nothing was measured in those steps (solve/pass@1),
    the first and the last measurement before that end are shown.
    """
    from autotriton.cli.show import finite
    from autotriton.train import comparing

    found_runs = [comparing.read(run) for run in _opened(runs, store)]
    found = comparing.compare(found_runs, window)
    if plot is not None:
        from autotriton.train.curves import overlay

        overlay(found, found_runs, plot)
        print(f"wrote {plot}", file=sys.stderr)
    if as_json:
        print(json.dumps(finite(found.model_dump()), allow_nan=False))
    else:
        _show(found)


def _opened(names: Sequence[str], runs: Path) -> list[Run]:
    """In the order they were named."""
    from autotriton.errors import UsageError
    from autotriton.store import Store

    found: dict[Path, Run] = {}
    for name in names:
        path = Path(name)
        folder = Store(path.parent if len(path.parts) > 1 else runs)  # a run is named by its id or by its folder
        run = folder.open(path.name)
        if run.path.resolve() in found:
            raise UsageError(f"run {run.id} is named twice", hint="name different runs")
        found[run.path.resolve()] = run
    return list(found.values())


def _show(found: Comparison, console: Console | None = None) -> None:
    from rich.markup import escape

    from autotriton.cli.show import screen
    from autotriton.train.comparing import assignments

    out = console or screen()
    for note in found.notes:
        out.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True, highlight=False)
    columns = {name: [_cell(row.metrics.get(name)) for row in found.runs] for name in found.metrics}
    first = max(len(row.id) for row in found.runs)
    for names in _groups(columns, out.width - first) or [[]]:
        out.print(_table(found, {name: columns[name] for name in names}, first))
    if found.usual:
        usual = escape(", ".join(assignments(found.usual)))
        out.print(f"[dim]where a run says nothing else:[/] {usual}", soft_wrap=True, highlight=False)


def _groups(columns: Mapping[str, Sequence[str]], room: int) -> list[list[str]]:
    """One table where the screen is wide enough, else several: rich would leave columns out."""
    groups: list[list[str]] = []
    left = 0
    for name, cells in columns.items():
        width = _GAP + max(len(line) for text in (_header(name), *cells) for line in text.split("\n"))
        if width > left:
            groups.append([])
            left = max(room, width)
        groups[-1].append(name)
        left -= width
    return groups


def _table(found: Comparison, columns: Mapping[str, Sequence[str]], first: int) -> Table:
    from rich.table import Table

    start, end = f"1 to {found.window}", f"{found.steps - found.window + 1} to {found.steps}"
    table = Table(
        title=f"{found.verb}: means over steps {start} -> {end}",
        title_justify="left", box=None, pad_edge=False, header_style="dim", padding=(0, 0, 0, _GAP),
    )  # fmt: skip
    table.add_column("run", overflow="fold", min_width=first)
    for name in columns:
        table.add_column(_header(name), justify="right", no_wrap=True)
    for row, *cells in zip(found.runs, *columns.values(), strict=True):
        table.add_row(_about(row), *cells)
    return table


def _header(metric: str) -> str:
    return metric.replace("/", "/\n")


def _about(row: Row) -> str:
    """Below each other: beside each other these leave no room for numbers."""
    from rich.markup import escape

    from autotriton.train.comparing import assignments

    steps = f"{row.steps} step{'' if row.steps == 1 else 's'}"
    lines = [f"[bold]{escape(row.id)}[/]", *([escape(row.name)] if row.name else []), f"[dim]{steps}[/]"]
    return "\n".join([*lines, *(f"[cyan]{escape(line)}[/]" for line in assignments(row.differs))])


def _cell(change: Change | None) -> str:
    from autotriton.report.numbers import NONE

    if change is None:
        return NONE
    end = _mean(change.end)
    return end if change.start == change.end else f"{_mean(change.start)}\n-> {end}"


def _mean(window: Window) -> str:
    """Three digits behind the point, unless they say too much or nothing."""
    value = window.mean
    if value is None:
        return "nan"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"
