"""The short page about one run of `autotriton optimize`: self-contained, light and dark, no scripts, nothing fetched.

Must stay true: everything written by candidates, proposers or tasks is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from autotriton.loop import Result
from autotriton.report import figures, numbers
from autotriton.report.highlight import highlight
from autotriton.report.text import escape
from autotriton.store import RunInfo
from autotriton.types import Attempt, Kernel, Verdict

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
"""


def page(result: Result, info: RunInfo | None = None) -> str:
    """The whole document."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    winner = result.winner
    parts = [_HEAD.format(title=f"{escape(result.task.id)}: AutoTriton", style=style), _verdict(result)]
    if winner is not None and winner.verdict is not None:
        parts += [_facts(winner.verdict), _times(winner.verdict), _errors(winner.verdict), _kernels(winner.verdict)]
    parts += [_attempts(result), _failures(result)]
    if winner is not None:
        parts += ["<h2>The kernel</h2>", f"<pre>{highlight(winner.candidate.code)}</pre>"]
    return "".join([*parts, _origin(result, info), "</html>\n"])


def _verdict(result: Result) -> str:
    name = escape(result.task.id)
    if result.winner is None or result.winner.verdict is None:
        count = len(result.attempts)
        return f'<h1>{name}: <span class="bad">no verified kernel</span></h1><p>{count} attempts, none accepted.</p>'
    verdict = result.winner.verdict
    by = f"by {escape(result.winner.candidate.proposer)}, policy {verdict.policy.value}, up to {verdict.tier.value}"
    notes = "".join(f"<li>{escape(note)}</li>" for note in verdict.notes)
    return (
        f'<h1>{name}: <span class="good">verified</span></h1><p>{escape(verdict.message)} '
        f'<span class="dim">({by})</span></p>' + (f"<ul>{notes}</ul>" if notes else "")
    )


def _facts(verdict: Verdict) -> str:
    """The handful of numbers people look for."""
    worst = numbers.worst_check(verdict)
    facts = [(f"over {_baseline(name)}", numbers.interval(verdict.speedups.get(name))) for name in verdict.baselines]
    if worst is not None:
        facts += [
            (f"error against fp64, {worst.inputs}", numbers.error(worst.max_error)),
            ("the reference's own", numbers.error(worst.reference_max_error)),
        ]
    facts += [
        ("of the roofline", numbers.share(verdict.roofline_share)),
        ("peak memory", numbers.size(verdict.peak_memory_bytes)),
        ("kernel launches", numbers.count(numbers.launches(verdict))),
    ]
    known = [(name, value) for name, value in facts if value != numbers.NONE]
    inner = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in known)
    return f"<dl>{inner}</dl>"


def _times(verdict: Verdict) -> str:
    if verdict.timing is None:
        return ""
    how = f"{verdict.timing.method}, {verdict.timing.samples} samples; bars are medians, lines go from p20 to p80"
    return f'<h2>Time per call</h2>{figures.times(verdict)}<p class="dim">{escape(how)}</p>'


def _errors(verdict: Verdict) -> str:
    drawing = figures.errors(verdict.checks)
    if not drawing:
        return ""
    measured = [(c, (c.max_error, c.reference_max_error, c.allowed_error)) for c in verdict.checks]
    rows = [(c.inputs, "passed" if c.passed else "failed", *map(numbers.error, errors)) for c, errors in measured]
    legend = "Small green: this kernel. Large grey: the reference itself. Red line: what is allowed."
    table = _table(("case", "result", "error", "reference's own", "allowed"), rows)
    return f'<h2>Error against fp64</h2>{drawing}<p class="dim">{legend}</p>{table}'


def _kernels(verdict: Verdict) -> str:
    columns = ("kernel", "launches", "time", "on", "registers", "spills", "shared", "occupancy")
    rows = [row for kernel in verdict.kernels for row in _kernel(kernel)]
    return f"<h2>Kernels</h2>{_table(columns, rows)}" if rows else ""


def _kernel(kernel: Kernel) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    if kernel.registers is not None or kernel.shared_bytes is not None or not kernel.targets:
        rows.append(("this device", *_cost(kernel.registers, kernel.spills, kernel.shared_bytes, None)))
    for t in kernel.targets:
        rows.append(
            (t.arch, t.error) if t.error else (t.arch, *_cost(t.registers, t.spills, t.shared_bytes, t.occupancy))
        )
    first = (kernel.name, str(kernel.launches), numbers.share(kernel.time_share))
    return [(*(first if place == 0 else ("", "", "")), *row) for place, row in enumerate(rows)]


def _cost(registers: int | None, spills: int | None, shared: int | None, occupancy: float | None) -> tuple[str, ...]:
    return numbers.count(registers), numbers.count(spills), numbers.size(shared), numbers.share(occupancy)


def _attempts(result: Result) -> str:
    columns = (
        "",
        "proposer",
        "verdict",
        "error",
        "reference's own",
        "launches",
        "ms",
        "over eager",
        "over compile",
        "why",
    )
    rows = [(str(place), *_attempt(attempt)) for place, attempt in enumerate(result.attempts, 1)]
    marked = [place for place, attempt in enumerate(result.attempts) if attempt is result.winner]
    return f"<h2>Attempts</h2>{_table(columns, rows, marked)}"


def _attempt(attempt: Attempt) -> tuple[str, ...]:
    verdict = attempt.verdict
    if verdict is None:
        return (attempt.candidate.proposer, "not judged", *[numbers.NONE] * 6, attempt.error or "")
    worst = numbers.worst_check(verdict)
    return (
        attempt.candidate.proposer,
        verdict.outcome.value,
        numbers.error(worst.max_error if worst else None),
        numbers.error(worst.reference_max_error if worst else None),
        numbers.count(numbers.launches(verdict)),
        numbers.milliseconds(verdict.timing.median_ms if verdict.timing else None),
        numbers.interval(verdict.speedups.get("eager")),
        numbers.interval(verdict.speedups.get("compile")),
        "" if verdict.accepted else verdict.message,
    )


def _failures(result: Result) -> str:
    items = "".join(f"<li>{escape(f.who)}: {escape(f.cause)}</li>" for f in result.failures)
    return f"<h2>Gave up</h2><ul>{items}</ul>" if items else ""


def _origin(result: Result, info: RunInfo | None) -> str:
    """What made the numbers."""
    rows = [("task", f"{result.task.id}, {result.task.entry}, {result.task.mode.value} mode, {result.task.hash}")]
    if result.winner is not None:
        rows.append(("candidate", result.winner.candidate.id))
    if info is not None:
        machine = info.machine
        versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
        rows += [
            ("run", f"{info.id}, started {info.started}"),
            ("machine", f"{machine.gpu or 'no GPU'}; {machine.cpu}, {machine.cores} cores; {machine.platform}"),
            ("versions", f"{versions}; commit {info.commit}; judge {info.judge_version}"),
        ]
    return f"<h2>Where this comes from</h2>{_table((), rows)}"


def _baseline(name: str) -> str:
    return "torch.compile" if name == "compile" else name


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], marked: Sequence[int] = ()) -> str:
    head = "<tr>" + "".join(f"<th>{escape(column)}</th>" for column in columns) + "</tr>" if columns else ""
    body = "".join(
        f"<tr{' class=winner' if place in marked else ''}>"
        + "".join(f"<td{' class=wide' if len(cell) > 60 else ''}>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for place, row in enumerate(rows)
    )
    return f'<div class="scroll"><table>{head}{body}</table></div>'
