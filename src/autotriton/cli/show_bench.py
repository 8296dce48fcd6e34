"""Scores and comparisons as tables on stdout, for those who stay in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from autotriton.bench import published
from autotriton.bench.comparing import Comparison, Pair
from autotriton.bench.score import Mean, Score, Share
from autotriton.cli.show import plain, screen
from autotriton.judge.cheats import MEANINGS
from autotriton.report.numbers import NONE, NOT_MEASURED, counted, p_value, percent

_RATES = ("call", "official", "checked", "fast1", "fast2", "fast1 sure", "over compile", "mean", "mean/compile")


def scores(found: Sequence[Score], console: Console | None = None) -> None:
    """Every run, with the published rows of its channel, then what each was made with."""
    out = console or screen()
    for suite in dict.fromkeys(score.suite for score in found):
        _channel(suite, [score for score in found if score.suite == suite], out)
    for score in found:
        _details(score, out)
    missing = [channel.title for channel in published.CHANNELS if channel.suite not in {s.suite for s in found}]
    if missing:
        out.print(f"[dim]{NOT_MEASURED}: {', '.join(missing)}[/]", highlight=False)


def comparison(found: Comparison, console: Console | None = None) -> None:
    out = console or screen()
    for warning in found.warnings:
        out.print(f"[yellow]note[/]: {plain(warning)}", soft_wrap=True, highlight=False)
    _channel(found.suite, found.scores, out, f"{found.suite}, {counted(len(found.tasks), 'common task')}")
    for pair in found.pairs:
        _pair(pair, out)


def _channel(suite: str, found: Sequence[Score], out: Console, title: str | None = None) -> None:
    table = Table(title=plain(title or suite), title_justify="left", box=None, pad_edge=False, header_style="dim")
    table.add_column("% of tasks", overflow="fold")
    for column in _RATES:
        table.add_column(column, justify="right")
    for score in found:
        table.add_row(f"[bold]{plain(score.proposer)}[/] [dim]{plain(score.run_id)}[/]", *_cells(score))
    for row in published.of_suite(suite):
        numbers = row.numbers[suite]
        cells = [percent(value, None) for value in (numbers.call, numbers.exec, None, numbers.fast1, numbers.fast2)]
        table.add_row(f"[dim]{plain(row.model)}[/]", *(f"[dim]{cell}[/]" for cell in cells), *[f"[dim]{NONE}[/]"] * 4)
    out.print(table)


def _cells(score: Score) -> list[str]:
    one, two, compiled = score.faster(1.0), score.faster(2.0), score.faster(1.0, "compile")
    return [
        _share(score.called),
        _share(score.executed),
        f"[bold]{_share(score.checked)}[/]",
        _share(one.median if one else None),
        _share(two.median if two else None),
        _share(one.sure if one else None),
        _share(compiled.sure if compiled else None),
        _mean(score.geometric_mean.get("eager")),
        _mean(score.geometric_mean.get("compile")),
    ]


def _details(score: Score, out: Console) -> None:
    low, high = (f"{100 * value:.1f}" for value in (score.checked.low, score.checked.high))
    checked = NONE if score.checked.value is None else f"{_share(score.checked)}% (95% {low} to {high})"
    missing = f"; {counted(score.missing, 'answer')} never came" if score.missing else ""
    gpu = score.machine.gpu or "no GPU"
    lines = [
        f"[bold]{plain(score.run_id)}[/]  {plain(score.suite)} at {plain(score.suite_version[:12])}, "
        f"judge {plain(score.judge_version)}, policy {plain(score.policy)}, "
        f"up to {plain(score.tier)}, {plain(gpu)}, "
        f"commit {plain(score.commit[:12])}",
        f"  checked {checked} of {counted(score.checked.of, 'task')}, "
        f"{counted(score.samples, 'sample')} each; {score.answered} of {score.tasks} answered{missing}",
    ]
    rates = [f"pass@{k} {_share(share)}" for k, share in score.pass_at.items() if k > 1]
    lines += [f"  {', '.join(rates)}"] if rates else []
    lines += [
        f"  [red]{_share(caught.share)}%[/] {caught.kind.value.replace('_', ' ')}: {MEANINGS[caught.kind]}"
        for caught in score.cheats
    ]
    lines += [f"  [yellow]excluded[/] {plain(task)}: {plain(why)}" for task, why in score.excluded.items()]
    lines += [f"  [yellow]skipped[/] {plain(task)}: {plain(why)}" for task, why in score.skipped.items()]
    lines += [f"  [yellow]not scored[/] {plain(u.task)} #{u.sample}: {plain(u.error)}" for u in score.unscored]
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)


def _pair(pair: Pair, out: Console) -> None:
    passing = pair.passing
    out.print(
        f"[bold]{plain(pair.second)}[/] against [bold]{plain(pair.first)}[/]: "
        f"solves {passing.better} tasks more often, {passing.worse} less often, {passing.equal} equally; "
        f"{_verdict(passing.p_value)}",
        soft_wrap=True,
        highlight=False,
    )
    if (speed := pair.speeding) is not None:
        bounds = f"(95% {speed.low:.3f} to {speed.high:.3f})"
        line = f"  its answers run {speed.ratio:.3f}x as fast {bounds}; {_verdict(speed.p_value)}"
        out.print(line, soft_wrap=True, highlight=False)


def _verdict(value: float) -> str:
    colour = "green" if value < 0.05 else "yellow"
    return f"[{colour}]{p_value(value)}[/]"


def _share(share: Share | None) -> str:
    return NONE if share is None or share.value is None else f"{100 * share.value:.1f}"


def _mean(mean: Mean | None) -> str:
    return NONE if mean is None else f"{mean.value:.2f}x"
