"""The table of the five channels: our runs above, each by its suite's own count and by ours, published rows below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autotriton.bench import published
from autotriton.bench.published import CHANNELS, Published
from autotriton.bench.score import Score, Share
from autotriton.report.numbers import NOT_MEASURED, percent
from autotriton.report.text import escape

_DIGITS = {"tritonbench-g": 1, "tritonbench-t": 1}


def table(scores: Sequence[Score]) -> str:
    """One column group per channel; a channel nobody measured says so."""
    head = "".join(
        f'<th colspan="4" scope="colgroup" class="group">{escape(channel.title)}'
        f'<span class="dim"> {channel.tasks}</span></th>'
        for channel in CHANNELS
    )
    names = "".join(
        f'<th scope="col" class="num first">{channel.call}</th><th scope="col" class="num">Exec</th>'
        '<th scope="col" class="num">fast<sub>1</sub></th><th scope="col" class="num">fast<sub>2</sub></th>'
        for channel in CHANNELS
    )
    found = _by_proposer(scores)
    several = Counter(name for name, _ in found)
    ours = "".join(_proposer(name, cells, told_apart=several[name] > 1) for name, cells in found)
    rows = "".join(_published(row) for row in (*published.ROWS, published.PASS_AT_10))
    return (
        '<div class="scroll channels" tabindex="0" role="region" aria-label="Five channels"><table>'
        f'<thead><tr><td></td>{head}</tr><tr><th scope="col">percent of all tasks</th>{names}</tr></thead>'
        f'<tbody class="ours">{ours}</tbody><tbody class="published">{rows}</tbody></table></div>'
        f"{_notes()}"
    )


def _by_proposer(scores: Sequence[Score]) -> list[tuple[str, dict[str, Score]]]:
    """Runs of one proposer share rows; a second run of the same channel starts new ones."""
    found: list[tuple[str, dict[str, Score]]] = []
    for score in scores:
        if published.channel(score.suite) is None:
            continue
        place = next((cells for name, cells in found if name == score.proposer and score.suite not in cells), None)
        if place is None:
            found.append((score.proposer, place := {}))
        place[score.suite] = score
    return found


def _proposer(name: str, scores: dict[str, Score], *, told_apart: bool) -> str:
    """`told_apart`: other rows are by the same proposer, so these name their runs."""
    runs = ", ".join(dict.fromkeys(score.run_id for score in scores.values()))
    title = f"<b>{escape(name)}{f' <small>{escape(runs)}</small>' if told_apart else ''}</b>"
    rows = [
        _row(f"{title}, as published", [_official(scores.get(c.suite)) for c in CHANNELS], "official"),
        _row(f"{title}, checked", [_checked(scores.get(c.suite)) for c in CHANNELS], "checked"),
    ]
    most = max(score.samples for score in scores.values())
    if most > 1:
        shares = [scores[c.suite].pass_at.get(most) if c.suite in scores else None for c in CHANNELS]
        cells = [None if share is None else (None, share, None, None) for share in shares]
        rows.append(_row(f"{title}, checked, pass@{most}", cells, "checked"))
    return "".join(rows)


_Cell = tuple[Share | None, Share | None, Share | None, Share | None]


def _official(score: Score | None) -> _Cell | None:
    if score is None:
        return None
    one, two = score.faster(1.0), score.faster(2.0)
    return score.called, score.executed, one.median if one else None, two.median if two else None


def _checked(score: Score | None) -> _Cell | None:
    if score is None:
        return None
    one, two = score.faster(1.0), score.faster(2.0)
    return None, score.checked, one.sure if one else None, two.sure if two else None


def _row(label: str, cells: Iterable[_Cell | None], kind: str) -> str:
    parts = [f'<tr class="{kind}"><th scope="row">{label}</th>']
    for cell in cells:
        if cell is None:
            parts.append(f'<td colspan="4" class="dim absent">{NOT_MEASURED}</td>')
        else:
            parts += [_share(share, first=place == 0, main=place == 1) for place, share in enumerate(cell)]
    return "".join([*parts, "</tr>"])


def _share(share: Share | None, *, first: bool, main: bool) -> str:
    kind = f"num{' first' if first else ''}{' main' if main else ''}"
    if share is None or share.value is None:
        return f'<td class="{kind}"></td>'
    about = f"{share.hits:g} of {share.of}; 95%: {100 * share.low:.1f} to {100 * share.high:.1f}"
    return f'<td class="{kind}" title="{about}">{percent(100 * share.value)}</td>'


def _published(row: Published) -> str:
    parts = [f'<tr><th scope="row">{escape(row.model)}</th>']
    for channel in CHANNELS:
        numbers = row.numbers.get(channel.suite)
        values = (None,) * 4 if numbers is None else (numbers.call, numbers.exec, numbers.fast1, numbers.fast2)
        for place, value in enumerate(values):
            kind = f"num{' first' if place == 0 else ''}{' main' if place == 1 else ''}"
            text = "" if value is None else percent(value, _DIGITS.get(channel.suite, 0))
            parts.append(f'<td class="{kind}">{text}</td>')
    return "".join([*parts, "</tr>"])


def _notes() -> str:
    claims = "".join(
        f"<li><b>{escape(claim.model)}</b> {escape(claim.says)} <span class=dim>({escape(claim.source)})</span></li>"
        for claim in (*published.STRICTER, *published.OTHERS)
    )
    return (
        '<p class="note">Rows below the line: '
        f"{escape(published.PAPER)} unless named otherwise; not measured here. "
        f"<b>As published</b> counts as the suites do, fast by the plain "
        "ratio of medians over eager. <b>Checked</b> is our judge: values compared, cheating is wrong, excluded tasks "
        "left out, fast by the lower end of the interval.</p>"
        f"<details><summary>Stricter re-measurements, and the best others</summary><ul>{claims}</ul></details>"
    )
