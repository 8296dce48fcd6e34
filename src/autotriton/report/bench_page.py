"""The page about benchmark runs: one file, works offline, light and dark, on paper and on a phone.

Must stay true: nothing is fetched; the only script is ours, allowed by its hash; everything written by candidates,
proposers or suites is escaped here or reaches the page as data that the script shows as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotriton.bench.metrics import baselines, score
from autotriton.bench.published import channel
from autotriton.bench.records import BenchRun
from autotriton.bench.score import Mean, Score, Share
from autotriton.bench.tally import Row, tally
from autotriton.report import channels, charts, definitions, numbers, series
from autotriton.report.blob import blob
from autotriton.report.tasklist import task_list
from autotriton.report.text import escape

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '{hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
"""


def page(runs: Sequence[BenchRun]) -> str:
    """The whole document."""
    rows = [tally(run) for run in runs]
    scores = [score(run) for run in runs]
    script = _file("bench.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    names = dict.fromkeys(_title(found.suite) for found in scores)
    title = f"{', '.join(names)}: AutoTriton"
    return "".join(
        [
            _HEAD.format(title=escape(title), style=_file("bench.css"), hash=f"sha256-{digest}"),
            _header(scores),
            f"<section><h2>Five channels</h2>{channels.table(scores)}</section>",
            _tabs(scores),
            *(_run(place, found, counted) for place, (found, counted) in enumerate(zip(rows, scores, strict=True))),
            definitions.section(),
            "</main>",
            f'<script type="text/plain" id="data">{blob(rows)}</script>',
            f"<script>{script}</script></html>\n",
        ]
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _title(suite: str) -> str:
    known = channel(suite)
    return known.title if known is not None else suite


def _header(scores: Sequence[Score]) -> str:
    proposers = ", ".join(dict.fromkeys(found.proposer for found in scores))
    machines = ", ".join(dict.fromkeys(found.machine.gpu or found.machine.cpu or "unknown" for found in scores))
    days = sorted({found.started[:10] for found in scores})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        '<header><div><p class="brand">AutoTriton benchmark</p>'
        f"<h1>{escape(proposers)}</h1><p class=dim>{escape(machines)} &middot; {escape(when)}</p></div>"
        '<button type="button" id="theme" class="controls" aria-label="Colours: as the system">◐</button></header>'
        "<main>"
    )


def _tabs(scores: Sequence[Score]) -> str:
    """One tab per run; a single run needs none."""
    if len(scores) == 1:
        return ""
    buttons = "".join(
        f'<button type="button" role="tab" id="tab-{place}" aria-controls="run-{place}" '
        f'aria-selected="{"true" if place == 0 else "false"}">{escape(_title(found.suite))}'
        f"<small>{escape(found.proposer)}</small>{_apart(found, scores)}</button>"
        for place, found in enumerate(scores)
    )
    return f'<div role="tablist" class="tabs controls" aria-label="Runs">{buttons}</div>'


def _apart(found: Score, scores: Sequence[Score]) -> str:
    """Which run it is, where another one is of the same suite and proposer."""
    same = [one for one in scores if (one.suite, one.proposer) == (found.suite, found.proposer)]
    return f"<small>{escape(found.run_id)}</small>" if len(same) > 1 else ""


def _run(place: int, rows: Sequence[Row], found: Score) -> str:
    head = f"{escape(_title(found.suite))} <small>{escape(found.proposer)}</small>"
    return (
        f'<section class="run" id="run-{place}"><h2>{head}</h2>{_line(found)}{_numbers(found)}{_charts(rows, found)}'
        f"{_lists(found)}<h3>Tasks</h3>{task_list(rows, found, place)}{_origin(found)}</section>"
    )


def _line(found: Score) -> str:
    """What made the numbers, at a glance; the whole of it is at the end of the section."""
    parts = [
        f"suite {found.suite_version[:12]}",
        f"judge {found.judge_version or 'unknown'}, {found.policy}, up to {found.tier}",
        found.machine.gpu or "no GPU",
        f"commit {found.commit[:12]}",
        f"run {found.run_id}",
    ]
    return f'<p class="line">{"".join(f"<span>{escape(part)}</span>" for part in parts)}</p>'


def _numbers(found: Score) -> str:
    """The handful people look for, each with its interval."""
    facts = [_fact("solved, checked", found.checked, main=True)]
    if found.executed is not None:
        facts.append(_fact("solved, as published", found.executed))
    facts.append(_fact("loads and runs", found.called))
    most = max(found.pass_at, default=1)
    if most > 1:
        facts.append(_fact(f"pass@{most}, checked", found.pass_at[most]))
    for baseline, name in (("eager", "eager"), ("compile", "torch.compile")):
        fast = found.faster(1.0, baseline)
        if fast is not None:
            facts.append(_fact(f"surely faster than {name}", fast.sure))
    for baseline, mean in found.geometric_mean.items():
        facts.append(_mean(charts.NAMES.get(baseline, baseline), mean))
    return f'<dl class="facts">{"".join(facts)}</dl>{_warnings(found)}'


def _fact(name: str, share: Share, *, main: bool = False) -> str:
    kind = " class=main" if main else ""
    if share.value is None:
        return f"<div{kind}><dt>{escape(name)}</dt><dd>{numbers.NONE}</dd><p>nothing scored</p></div>"
    value = f"{100 * share.value:.1f}<small>%</small>"
    bounds = f"{100 * share.low:.1f} to {100 * share.high:.1f}"
    bar = (
        f'<svg class="whisker" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" x="0" y="2.5" width="100" height="1"/><rect class="span" '
        f'x="{100 * share.low:.2f}" y="1.5" width="{max(100 * (share.high - share.low), 0.5):.2f}" height="3"/>'
        f'<rect class="at" x="{min(max(100 * share.value - 0.5, 0), 99):.2f}" y="0" width="1" height="6"/></svg>'
    )
    about = f"{share.hits:g} of {share.of}" if share.hits == int(share.hits) else f"of {share.of} tasks"
    return f"<div{kind}><dt>{escape(name)}</dt><dd>{value}</dd>{bar}<p>{about}, {bounds}</p></div>"


def _mean(name: str, mean: Mean) -> str:
    assumed = f"; {mean.assumed} of {mean.tasks} taken as 1" if mean.assumed else ""
    return (
        f"<div><dt>mean speed-up over {escape(name)}</dt><dd>{mean.value:.2f}<small>x</small></dd>"
        f"<p>geometric, {mean.low:.2f} to {mean.high:.2f}{assumed}</p></div>"
    )


def _warnings(found: Score) -> str:
    lines = []
    if found.unanswered:
        lines.append(f"{len(found.unanswered)} of {found.tasks} tasks without an answer: the run was interrupted.")
    if found.missing and found.samples > 1:
        asked = found.tasks * found.samples
        lines.append(f"{found.missing} of {asked} answers asked for never came; each counts as one that fails.")
    if found.unscored:
        count = f"{len(found.unscored)} attempt{'s' if len(found.unscored) > 1 else ''}"
        lines.append(f"{count} not scored, as the judge or the proposer broke; no share counts them.")
    if found.unproved is not None and found.unproved.value:
        lines.append(
            f"{100 * found.unproved.value:.1f}% of the tasks pass the suite's own test but not the judge's: "
            "the difference between the two counts."
        )
    return "".join(f'<p class="note warn">{escape(line)}</p>' for line in lines)


def _charts(rows: Sequence[Row], found: Score) -> str:
    names = baselines(rows)
    figures = [
        _figure(
            f"Speed-ups over {charts.NAMES.get(name, name)}",
            charts.distribution(series.speedups(rows, name), name),
            "Correct candidates; green is faster than the baseline.",
        )
        for name in names
        if name in ("eager", "compile")
    ]
    drawn = [series.curve(rows, name) for name in names if name in ("eager", "compile")]
    legend = '<span class="key first"></span>over eager <span class="key second"></span>over torch.compile'
    figures.append(
        _figure(
            "Share of all tasks more than p times as fast",
            charts.curves(drawn),
            f"{legend}. Solid: by the lower end of the interval; dashed: by the ratio of medians.",
        )
    )
    shown = series.families(rows)
    keys = [key for key in series.GROUPS if any(key in family.counts for family in shown)]
    marks = ((f'<span class="dot g-{key}"></span>', series.GROUPS[key]) for key in keys)
    legend = " ".join(f'<span class="legend">{mark}{name}</span>' for mark, name in marks)
    figures.append(_figure("Outcomes by operator family", charts.outcomes(shown), legend))
    caption = f"Of {found.candidates} candidates judged. The kinds are explained at the end of the page."
    figures.append(_figure("Cheats caught", charts.cheats(found.cheats), caption))
    return f'<div class="figures">{"".join(figures)}</div>'


def _figure(title: str, drawing: str, caption: str) -> str:
    return f"<figure><h3>{escape(title)}</h3>{drawing}<figcaption>{caption}</figcaption></figure>" if drawing else ""


def _lists(found: Score) -> str:
    """Tasks that need a word, by name."""
    unscored = {f"{item.task} #{item.sample}": item.error for item in found.unscored}
    return (
        _named("excluded from the checked count", found.excluded)
        + _named("skipped on this machine, counted as not solved", found.skipped)
        + _named("not scored, as the judge or the proposer broke", unscored)
    )


def _named(title: str, tasks: Mapping[str, str]) -> str:
    if not tasks:
        return ""
    items = "".join(f"<li><b>{escape(task)}</b> {escape(why)}</li>" for task, why in tasks.items())
    return f"<details class=named><summary>{len(tasks)} {title}</summary><ul>{items}</ul></details>"


def _origin(found: Score) -> str:
    """What made the numbers."""
    machine = found.machine
    gpu = machine.gpu or "no GPU"
    memory = f", {machine.gpu_memory_gib:g} GiB" if machine.gpu_memory_gib else ""
    facts = {
        "run": f"{found.run_id}, started {found.started}",
        "suite": f"{found.suite}, version {found.suite_version}, {numbers.counted(found.tasks, 'task')}, "
        f"{numbers.counted(found.samples, 'sample')} each",
        "judge": f"version {found.judge_version or 'unknown'}, policy {found.policy}, up to tier {found.tier}",
        "commit": found.commit,
        "machine": f"{gpu}{memory}; {machine.cpu}, {machine.cores} cores; {machine.platform}",
        "versions": ", ".join(f"{name} {version}" for name, version in found.versions.items()),
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in facts.items() if text)
    return f'<h3>Where this comes from</h3><dl class="origin">{items}</dl>'
