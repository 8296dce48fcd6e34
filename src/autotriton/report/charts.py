"""The benchmark page's drawings: inline SVG without scripts, coloured by the page's style in light and dark.

Must stay true: what a drawing shows is also said in its label, for those who do not see it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotriton.bench.score import Caught
from autotriton.judge.cheats import MEANINGS
from autotriton.report import series
from autotriton.report.series import Curve, Family
from autotriton.report.text import escape

_WIDTH, _HEIGHT = 560, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 14, 34
_ROW = 26
NAMES = {"compile": "torch.compile"}


def distribution(values: Sequence[float], baseline: str) -> str:
    """Histogram of speed-ups on a logarithmic axis; slower than the baseline is drawn in grey."""
    counts = series.histogram(values)
    if not values:
        return ""
    shown = series.shown_bins(counts)
    tallest = max(counts)
    scale = _nice(tallest)
    room, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    width = room / (shown.stop - shown.start)
    parts = [_grid(str(scale))]
    for place in shown:
        if not counts[place]:
            continue
        x, tall = _LEFT + (place - shown.start) * width, high * counts[place] / scale
        low, up = series.BIN_EDGES[place], series.BIN_EDGES[place + 1]
        parts.append(
            f'<rect class="{"ours" if low >= 1 else "base"}" x="{x + 0.75:.1f}" y="{_TOP + high - tall:.1f}" '
            f'width="{width - 1.5:.1f}" height="{tall:.1f}" rx="1.5"><title>{low:.2f}x to {up:.2f}x: {counts[place]}'
            "</title></rect>"
        )
    for place in range(shown.start, shown.stop + 1):
        edge = series.BIN_EDGES[place]
        if math.log2(edge) % 1 == 0:
            parts.append(_mark(_LEFT + (place - shown.start) * width, edge))
    faster = sum(value > 1 for value in values)
    over = f"Speed-ups over {NAMES.get(baseline, baseline)}"
    label = f"{over}: {len(values)} measured, {faster} faster, median {statistics.median(values):.2f}x"
    return _svg(_HEIGHT, label, "".join(parts))


def curves(found: Sequence[Curve]) -> str:
    """fast_p for all p: one line per baseline, solid by the interval's lower end, dashed by the plain ratio."""
    if not found:
        return ""
    top = max(max(curve.median) for curve in found)
    scale = next(step for step in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if top <= step)
    parts = [_grid(f"{scale:.0%}")]
    low, high = series.THRESHOLDS[0], series.THRESHOLDS[-1]

    def x_at(p: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log(p / low) / math.log(high / low)

    def y_at(share: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share / scale)

    parts += [_mark(x_at(p), p) for p in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)]
    for curve in found:
        kind = "first" if curve.baseline == "eager" else "second"
        for name, shares in (("plain", curve.median), ("sure", curve.sure)):
            steps = zip(series.THRESHOLDS, shares, strict=True)
            points = " ".join(f"{x_at(p):.1f},{y_at(share):.1f}" for p, share in steps)
            parts.append(f'<polyline class="curve {kind} {name}" points="{points}"/>')
    at_one = ", ".join(f"{NAMES.get(c.baseline, c.baseline)} {c.sure[series.THRESHOLDS.index(1.0)]:.0%}" for c in found)
    return _svg(_HEIGHT, f"Share of tasks more than p times as fast; at p = 1: {at_one}", "".join(parts))


def outcomes(found: Sequence[Family]) -> str:
    """One stacked bar per operator family."""
    if not found:
        return ""
    label, count = 128, 40
    room, longest = _WIDTH - label - count, max(family.total for family in found)
    parts = []
    for place, family in enumerate(found):
        top, x = place * _ROW + 4, float(label)
        parts.append(_text(label - 8, top + 13, _short(family.name), "end"))
        for key, number in family.counts.items():
            wide = room * number / longest
            parts.append(
                f'<rect class="g-{key}" x="{x:.1f}" y="{top}" width="{max(wide - 1, 0.5):.1f}" height="18">'
                f"<title>{escape(family.name)}: {number} {series.GROUPS[key]}</title></rect>"
            )
            x += wide
        parts.append(_text(x + 6, top + 13, str(family.total), "start", "dim"))
    said = "; ".join(f"{f.name}: {', '.join(f'{n} {series.GROUPS[k]}' for k, n in f.counts.items())}" for f in found)
    return _svg(len(found) * _ROW + 6, f"Outcomes by operator family. {said}", "".join(parts))


def cheats(found: Sequence[Caught]) -> str:
    """One bar per kind of cheating, as long as its share of all candidates."""
    if not found:
        return ""
    label, room = 128, _WIDTH - 128 - 96
    shares = [caught.share.hits / caught.share.of for caught in found]
    longest = max(shares)
    parts = []
    for place, (caught, value) in enumerate(zip(found, shares, strict=True)):
        top, share = place * _ROW + 4, caught.share
        wide = room * value / longest
        name = caught.kind.value.replace("_", " ")
        parts.append(_text(label - 8, top + 13, name, "end"))
        parts.append(
            f'<rect class="g-refused" x="{label}" y="{top}" width="{max(wide, 1):.1f}" height="18" rx="1.5">'
            f"<title>{escape(MEANINGS[caught.kind])}</title></rect>"
        )
        parts.append(_text(label + wide + 6, top + 13, f"{int(share.hits)} ({100 * value:.1f}%)", "start"))
    said = ", ".join(f"{c.kind.value.replace('_', ' ')} {int(c.share.hits)} of {c.share.of}" for c in found)
    return _svg(len(found) * _ROW + 6, f"Candidates rejected for cheating: {said}", "".join(parts))


def _svg(height: int, label: str, inner: str) -> str:
    return f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {height}">{inner}</svg>'


def _grid(top: str) -> str:
    """Lines at nothing, half and all of the scale, with their values."""
    parts = []
    for part, text in ((0.0, "0"), (0.5, _half(top)), (1.0, top)):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - part)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 6, y + 4, text, "end", "dim"))
    return "".join(parts)


def _mark(x: float, ratio: float) -> str:
    """A mark on the axis of ratios; 1 is the line between slower and faster."""
    kind, top = ("unit", _TOP) if ratio == 1 else ("tick", _HEIGHT - _BOTTOM)
    line = f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{_HEIGHT - _BOTTOM + 4}"/>'
    return line + _text(x, _HEIGHT - 14, _times(ratio), "middle", "one" if ratio == 1 else "")


def _half(top: str) -> str:
    number = float(top.rstrip("%")) / 2
    return f"{number:g}{'%' if top.endswith('%') else ''}"


def _nice(value: int) -> int:
    """The next even number that reads well, so that half of it is whole."""
    power: int = 10 ** (len(str(value)) - 1)
    return next(step * power for step in (2, 4, 6, 8, 10, 20) if step * power >= value)


def _times(ratio: float) -> str:
    return f"{ratio:g}x" if ratio >= 1 else f"1/{1 / ratio:g}x"


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    about = f' class="{kind}"' if kind else ""
    return f'<text{about} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
