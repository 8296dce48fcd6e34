"""A Verdict for a person's eyes, on stdout.

Must stay true: candidate-written text (kernel names, messages) is printed as text, never read as markup.
"""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autotriton.types import Check, Kernel, Severity, Speedup, Timing, Verdict


def verdict(found: Verdict, *, task: str, run: str | None = None, console: Console | None = None) -> None:
    """Prints the verdict line, then whatever was measured."""
    out = console or Console()
    word = "[bold green]accepted[/]" if found.accepted else "[bold red]rejected[/]"
    head = f"{word}  {escape(task)}  {found.outcome.value} ({found.policy.value}, up to {found.tier.value})"
    out.print(head, soft_wrap=True, highlight=False)
    out.print(escape(found.message), soft_wrap=True, highlight=False)
    _findings(found, out)
    _checks(found.checks, out)
    _kernels(found.kernels, out)
    _timings(found, out)
    _facts(found, run, out)


def finite(value: Any) -> Any:
    """The same JSON value with None for infinities and NaN, which JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _findings(found: Verdict, out: Console) -> None:
    for finding in found.findings:
        colour = "red" if finding.severity is Severity.ERROR else "yellow"
        where = f"line {finding.line}: " if finding.line is not None else ""
        text = (
            f"[{colour}]{finding.severity.value}[/]  {where}{escape(finding.message)} [dim]({escape(finding.rule)})[/]"
        )
        out.print(text, soft_wrap=True, highlight=False)


def _checks(checks: tuple[Check, ...], out: Console) -> None:
    if not checks:
        return
    table = _table("checks", "case", "result", "error", "reference's own", "allowed", "detail")
    for check in checks:
        result = "[green]passed[/]" if check.passed else "[red]failed[/]"
        errors = (_number(e) for e in (check.max_error, check.reference_max_error, check.allowed_error))
        table.add_row(escape(check.inputs), result, *errors, escape(check.detail))
    out.print(table)


def _kernels(kernels: tuple[Kernel, ...], out: Console) -> None:
    if not kernels:
        return
    columns = ("kernel", "launches", "time", "on", "registers", "spills", "shared", "occupancy")
    table = _table("kernels", *columns)
    for kernel in kernels:
        name = (escape(kernel.name), str(kernel.launches), _share(kernel.time_share))
        measured = any(v is not None for v in (kernel.registers, kernel.spills, kernel.shared_bytes))
        if measured or not kernel.targets:
            cost = (_count(kernel.registers), _count(kernel.spills), _bytes(kernel.shared_bytes), "-")
            table.add_row(*name, "this device" if measured else "-", *cost)
            name = ("", "", "")
        for target in kernel.targets:
            if target.error:
                table.add_row(*name, escape(target.arch), f"[red]{escape(target.error)}[/]")
            else:
                cost = (
                    _count(target.registers),
                    _count(target.spills),
                    _bytes(target.shared_bytes),
                    _share(target.occupancy),
                )
                table.add_row(*name, escape(target.arch), *cost)
            name = ("", "", "")
    out.print(table)


def _timings(found: Verdict, out: Console) -> None:
    if found.timing is None:
        return
    table = _table("time", "program", "median ms", "p20 to p80", "as called", "candidate's speed-up")
    table.add_row("candidate", *_times(found.timing), "")
    for name, timing in found.baselines.items():
        table.add_row(escape(name), *_times(timing), _speedup(found.speedups.get(name), found.speedup(name)))
    out.print(table)
    out.print(f"[dim]{escape(found.timing.method)}, {found.timing.samples} samples[/]", highlight=False)


def _facts(found: Verdict, run: str | None, out: Console) -> None:
    """Everything else worth a line, where it was measured."""
    lines: list[str] = []
    if found.torch_ops:
        ops = ", ".join(f"{name} x{count}" for name, count in found.torch_ops.items())
        lines.append(f"left to torch: {escape(ops)}")
    if found.triton_share is not None:
        lines.append(f"Triton's share of device time: {_share(found.triton_share)}")
    if found.roofline_share is not None:
        lines.append(f"share of the roofline: {_share(found.roofline_share)}")
    if found.peak_memory_bytes is not None:
        lines.append(f"peak memory: {_bytes(found.peak_memory_bytes)}")
    if found.deterministic is False:
        lines.append("[yellow]not deterministic[/]: the same input gave different bits")
    lines += [f"[yellow]note[/]: {escape(note)}" for note in found.notes]
    if run is not None:
        lines.append(f"recorded in {escape(run)}")
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _times(timing: Timing) -> tuple[str, str, str]:
    called = "-" if timing.latency_ms is None else f"{timing.latency_ms:.4g} ms"
    return f"{timing.median_ms:.4g}", f"{timing.p20_ms:.4g} to {timing.p80_ms:.4g}", called


def _speedup(interval: Speedup | None, ratio: float | None) -> str:
    if interval is not None:
        colour = "green" if interval.low > 1 else "yellow"
        return f"[{colour}]{interval.ratio:.2f}x[/] ({interval.low:.2f} to {interval.high:.2f})"
    return "-" if ratio is None else f"{ratio:.2f}x"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _bytes(value: int | None) -> str:
    if value is None:
        return "-"
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value} B"
