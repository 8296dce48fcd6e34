"""A Verdict, or the Result of a whole run, for a person's eyes, on stdout.

Must stay true: candidate-written text (kernel names, messages) is printed as text, never read as markup, and gives the
terminal no commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autotriton.report.numbers import (
    NONE,
    count,
    error,
    finite,
    interval,
    launches,
    milliseconds,
    ratio,
    share,
    size,
    worst_check,
)
from autotriton.report.text import visible
from autotriton.types import Check, Kernel, Severity, Speedup, Timing, Verdict

if TYPE_CHECKING:
    from autotriton.loop import Result

__all__ = ["finite", "plain", "result", "screen", "verdict"]
_PIPE_WIDTH = 120


def plain(text: str) -> str:
    """Text that others wrote: no markup, and no commands to the terminal."""
    return escape(visible(text))


def verdict(found: Verdict, *, task: str, run: str | None = None, console: Console | None = None) -> None:
    """Prints the verdict line, then whatever was measured."""
    out = console or screen()
    word = "[bold green]accepted[/]" if found.accepted else "[bold red]rejected[/]"
    head = f"{word}  {plain(task)}  {found.outcome.value} ({found.policy.value}, up to {found.tier.value})"
    out.print(head, soft_wrap=True, highlight=False)
    out.print(plain(found.message), soft_wrap=True, highlight=False)
    _findings(found, out)
    _checks(found.checks, out)
    _kernels(found.kernels, out)
    _timings(found, out)
    _facts(found, run, out)


def result(found: Result, *, files: Mapping[str, Path], run: Path, console: Console | None = None) -> None:
    """What was tried, the winner's verdict, and where things are."""
    out = console or screen()
    _attempts(found, out)
    for failure in found.failures:
        line = f"[yellow]gave up[/]  {plain(failure.who)}: {plain(failure.cause)}"
        out.print(line, soft_wrap=True, highlight=False)
    winner = found.winner
    if winner is None or winner.verdict is None:
        out.print(f"[bold red]no verified kernel[/]  {plain(found.task.id)}", soft_wrap=True, highlight=False)
    else:
        verdict(winner.verdict, task=found.task.id, console=out)
    for kind, path in files.items():
        out.print(f"{kind:<8} {plain(str(path))}", soft_wrap=True, highlight=False)
    out.print(f"run      {plain(str(run))}", soft_wrap=True, highlight=False)


def _attempts(found: Result, out: Console) -> None:
    """One row each; why the others were not accepted follows, as that takes whole lines."""
    timed = any(a.verdict is not None and a.verdict.timing is not None for a in found.attempts)
    more = ("median ms", "over eager", "over compile") if timed else ()
    table = _table("attempts", "#", "proposer", "verdict", "error", "reference's own", "launches", *more)
    reasons: list[str] = []
    for place, attempt in enumerate(found.attempts, 1):
        name = plain(attempt.candidate.proposer)
        mark = "[bold green]" if attempt is found.winner else "[default]"
        table.add_row(f"{mark}{place}[/]", f"{mark}{name}[/]", *_attempt(attempt.verdict, timed))
        if attempt.verdict is None or not attempt.verdict.accepted:
            why = (attempt.error or "") if attempt.verdict is None else attempt.verdict.message
            reasons.append(f"[dim]#{place}[/] {plain(' '.join(why.split()))}")
    out.print(table)
    for reason in reasons:
        out.print(reason, soft_wrap=True, highlight=False)


def _attempt(found: Verdict | None, timed: bool) -> list[str]:
    if found is None:
        return ["[yellow]not judged[/]"]
    colour = "green" if found.accepted else "red"
    worst = worst_check(found)
    errors = (None, None) if worst is None else (worst.max_error, worst.reference_max_error)
    cells = [f"[{colour}]{found.outcome.value}[/]", *map(error, errors), count(launches(found))]
    if timed:
        cells.append(milliseconds(found.timing.median_ms if found.timing else None))
        cells += [ratio(found.speedup(name)) for name in ("eager", "compile")]
    return cells


def screen() -> Console:
    """The terminal as wide as it is; a file or pipe has no width, and tables need some. `:x:` is text, no picture."""
    console = Console(emoji=False)
    return console if console.is_terminal else Console(width=_PIPE_WIDTH, emoji=False)


def _findings(found: Verdict, out: Console) -> None:
    for finding in found.findings:
        colour = "red" if finding.severity is Severity.ERROR else "yellow"
        where = f"line {finding.line}: " if finding.line is not None else ""
        text = f"[{colour}]{finding.severity.value}[/]  {where}{plain(finding.message)} [dim]({plain(finding.rule)})[/]"
        out.print(text, soft_wrap=True, highlight=False)


def _checks(checks: tuple[Check, ...], out: Console) -> None:
    if not checks:
        return
    table = _table("checks", "case", "result", "error", "reference's own", "allowed", "detail")
    for check in checks:
        result = "[green]passed[/]" if check.passed else "[red]failed[/]"
        errors = (error(e) for e in (check.max_error, check.reference_max_error, check.allowed_error))
        table.add_row(plain(check.inputs), result, *errors, plain(check.detail))
    out.print(table)


def _kernels(kernels: tuple[Kernel, ...], out: Console) -> None:
    if not kernels:
        return
    columns = ("kernel", "launches", "time", "on", "registers", "spills", "shared", "occupancy")
    table = _table("kernels", *columns)
    for kernel in kernels:
        name = (plain(kernel.name), str(kernel.launches), share(kernel.time_share))
        measured = any(v is not None for v in (kernel.registers, kernel.spills, kernel.shared_bytes))
        if measured or not kernel.targets:
            cost = (count(kernel.registers), count(kernel.spills), size(kernel.shared_bytes), "-")
            table.add_row(*name, "this device" if measured else "-", *cost)
            name = ("", "", "")
        for target in kernel.targets:
            if target.error:
                table.add_row(*name, plain(target.arch), f"[red]{plain(target.error)}[/]")
            else:
                cost = (
                    count(target.registers),
                    count(target.spills),
                    size(target.shared_bytes),
                    share(target.occupancy),
                )
                table.add_row(*name, plain(target.arch), *cost)
            name = ("", "", "")
    out.print(table)


def _timings(found: Verdict, out: Console) -> None:
    if found.timing is None:
        return
    table = _table("time", "program", "median ms", "p20 to p80", "as called", "candidate's speed-up")
    table.add_row("candidate", *_times(found.timing), "")
    for name, timing in found.baselines.items():
        table.add_row(plain(name), *_times(timing), _speedup(found.speedups.get(name), found.speedup(name)))
    out.print(table)
    out.print(f"[dim]{plain(found.timing.method)}, {found.timing.samples} samples[/]", highlight=False)


def _facts(found: Verdict, run: str | None, out: Console) -> None:
    """Everything else worth a line, where it was measured."""
    lines: list[str] = []
    if found.torch_ops:
        ops = ", ".join(f"{name} x{count}" for name, count in found.torch_ops.items())
        lines.append(f"left to torch: {plain(ops)}")
    if found.triton_share is not None:
        lines.append(f"Triton's share of device time: {share(found.triton_share)}")
    if found.roofline_share is not None:
        lines.append(f"share of the roofline: {share(found.roofline_share)}")
    if found.peak_memory_bytes is not None:
        eager = found.baseline_memory_bytes.get("eager")
        beside = "" if eager is None else f" (eager: {size(eager)})"
        lines.append(f"peak memory: {size(found.peak_memory_bytes)}{beside}")
    if found.deterministic is False:
        lines.append("[yellow]not deterministic[/]: the same input gave different bits")
    lines += [f"[yellow]note[/]: {plain(note)}" for note in found.notes]
    if run is not None:
        lines.append(f"recorded in {plain(run)}")
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _times(timing: Timing) -> tuple[str, str, str]:
    called = NONE if timing.latency_ms is None else f"{timing.latency_ms:.4g} ms"
    return milliseconds(timing.median_ms), f"{timing.p20_ms:.4g} to {timing.p80_ms:.4g}", called


def _speedup(found: Speedup | None, measured: float | None) -> str:
    if found is None:
        return ratio(measured)
    number, _, bounds = interval(found).partition(" ")
    colour = "green" if found.low > 1 else "yellow"
    return f"[{colour}]{number}[/] {bounds}"
