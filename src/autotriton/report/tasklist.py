"""The list of a run's tasks: one row each, complete without scripts; evidence is added by the page's script."""

from __future__ import annotations

from collections.abc import Sequence

from autotriton.bench.score import Score
from autotriton.bench.tally import Row, accepted
from autotriton.report import numbers, series
from autotriton.report.text import escape
from autotriton.types import Speedup, Verdict


def task_list(rows: Sequence[Row], score: Score, run: int) -> str:
    """Filters, and the table they act on."""
    families = sorted({name for row in rows for name in row.task.families})
    groups = [key for key in series.GROUPS if any(_group(row) == key for row in rows)]
    return (
        f'<div class="filters controls" role="search">'
        f'<label>find<input type="search" class="find" autocomplete="off" spellcheck="false"></label>'
        f'<label>outcome<select class="by-outcome"><option value="">all</option>{_options(groups, series.GROUPS)}'
        f'</select></label><label>family<select class="by-family"><option value="">all</option>'
        f"{_options(families, {})}</select></label>"
        f'<output class="count" aria-live="polite">{numbers.counted(len(rows), "task")}</output></div>'
        f'<div class="scroll tasks"><table><thead><tr>{_head(score)}</tr></thead><tbody>'
        + "".join(_row(row, score, run, place) for place, row in enumerate(rows))
        + "</tbody></table></div>"
    )


def _options(values: Sequence[str], names: dict[str, str]) -> str:
    return "".join(f'<option value="{escape(v)}">{escape(names.get(v, v))}</option>' for v in values)


def _head(score: Score) -> str:
    columns = [("task", "", "text"), ("family", "later", "text"), ("outcome", "", "text")]
    columns += [("as published", "later", "text")] if score.executed is not None else []
    columns += [("solved", "num later", "number")] if score.samples > 1 else []
    times = [("ms", "num later", "number"), ("over eager", "num", "number"), ("over compile", "num later", "number")]
    columns += times if score.fast else []
    return "".join(
        f'<th scope="col" class="{kind}" aria-sort="none"><button type="button" class="sort" data-as="{how}">{name}'
        "</button></th>"
        for name, kind, how in columns
    )


def _row(row: Row, score: Score, run: int, place: int) -> str:
    best, group = row.best, _group(row)
    verdict = best.verdict if best is not None else None
    word = "no answer" if best is None else "not scored" if verdict is None else verdict.outcome.value.replace("_", " ")
    marks = [m for m, on in (("excluded", row.excluded), ("skipped", row.task.id in score.skipped)) if on]
    name = escape(row.task.id)
    cells = [
        '<th scope="row"><button type="button" class="open" aria-expanded="false" '
        f'data-run="{run}" data-task="{place}">{name}'
        f"</button>{''.join(f' <small class=mark>{mark}</small>' for mark in marks)}</th>",
        f'<td class="later dim">{escape(", ".join(row.task.families) or "other")}</td>',
        f'<td><span class="dot g-{group}"></span>{escape(word)}</td>',
    ]
    if score.executed is not None:
        official = best.official if best is not None else None
        said = "" if official is None else "exec" if official.executed else "call" if official.called else "fails"
        cells.append(f'<td class="later dim">{said}</td>')
    if score.samples > 1:
        hits, of = row.scored(accepted)
        cells.append(f'<td class="num later" data-value="{hits}">{hits}/{of}</td>')
    cells += _times(verdict) if score.fast else []
    about = f'data-outcome="{group}" data-families="{escape(" ".join(row.task.families))}"'
    return f'<tr class="task" {about}>{"".join(cells)}</tr>'


def _times(verdict: Verdict | None) -> list[str]:
    """Only of accepted candidates: no speed-up is shown for a kernel that has not passed."""
    shown = verdict if verdict is not None and verdict.accepted else None
    ms = shown.timing.median_ms if shown is not None and shown.timing is not None else None
    eager, compiled = (shown.speedups.get(name) if shown is not None else None for name in ("eager", "compile"))
    return [
        _number(ms, numbers.milliseconds(ms), "num later"),
        _speedup(eager, "num"),
        _speedup(compiled, "num later"),
    ]


def _group(row: Row) -> str:
    return series.group(row.best)


def _number(value: float | None, text: str, kind: str) -> str:
    sort = "" if value is None else f' data-value="{value:.6g}"'
    return f'<td class="{kind}"{sort}>{escape(text) if value is not None else ""}</td>'


def _speedup(speedup: Speedup | None, kind: str) -> str:
    """Green only where the interval's lower end is above 1."""
    if speedup is None:
        return _number(None, "", kind)
    sure = " good" if speedup.low > 1 else ""
    return _number(speedup.ratio, numbers.ratio(speedup.ratio), f"{kind}{sure}")
