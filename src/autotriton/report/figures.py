"""The page's two drawings, as inline SVG without scripts: how long each program takes, and how far off each case is."""

from __future__ import annotations

import math

from autotriton.report import numbers
from autotriton.report.text import escape
from autotriton.types import Check, Timing, Verdict

_WIDTH, _LABEL, _ROW = 640, 130, 26
_FLOOR = 1e-12
"""Errors below this are drawn here: a logarithm has no zero."""


def times(verdict: Verdict) -> str:
    """Bars of eager, torch.compile and ours with their spread; empty when nothing was timed."""
    if verdict.timing is None:
        return ""
    names = {"compile": "torch.compile"}
    rows = [(names.get(name, name), timing) for name, timing in verdict.baselines.items()] + [("ours", verdict.timing)]
    longest = max(timing.p80_ms for _, timing in rows)
    drawn = "".join(_bar(place, name, timing, longest) for place, (name, timing) in enumerate(rows))
    return _svg(len(rows), "Milliseconds per call: " + ", ".join(f"{n} {t.median_ms:.4g}" for n, t in rows), drawn)


def errors(checks: tuple[Check, ...]) -> str:
    """One row per case: our error and the reference's own against fp64, on a logarithmic axis."""
    shown = [check for check in checks if check.max_error is not None and math.isfinite(check.max_error)]
    if not shown:
        return ""
    values = [v for c in shown for v in (c.max_error, c.reference_max_error, c.allowed_error) if v and math.isfinite(v)]
    low = math.floor(math.log10(max(min(values, default=_FLOOR), _FLOOR)))
    high = max(math.ceil(math.log10(max(*values, _FLOOR, 10.0**low))), low + 1)
    drawn = "".join(_dots(place, check, low, high) for place, check in enumerate(shown))
    return _svg(len(shown) + 1, "Largest error of each case", drawn + _axis(len(shown), low, high))


def _svg(rows: int, label: str, inner: str) -> str:
    height = rows * _ROW + 6
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}">{inner}</svg>'
    )


def _bar(place: int, name: str, timing: Timing, longest: float) -> str:
    top, room = place * _ROW + 4, _WIDTH - _LABEL - 110

    def at(ms: float) -> float:
        return _LABEL + room * ms / longest

    middle = top + 9
    return (
        _text(_LABEL - 8, middle + 4, name, "end")
        + f'<rect class="{"ours" if name == "ours" else "base"}" x="{_LABEL}" y="{top}" height="18" '
        f'width="{max(at(timing.median_ms) - _LABEL, 1):.1f}"/>'
        f'<line class="spread" x1="{at(timing.p20_ms):.1f}" x2="{at(timing.p80_ms):.1f}" y1="{middle}" y2="{middle}"/>'
        + _text(at(timing.p80_ms) + 8, middle + 4, f"{numbers.milliseconds(timing.median_ms)} ms", "start")
    )


def _dots(place: int, check: Check, low: int, high: int) -> str:
    middle = place * _ROW + 13
    marks = _text(_LABEL - 8, middle + 4, check.inputs, "end")
    marks += f'<line class="grid" x1="{_LABEL}" x2="{_WIDTH - 10}" y1="{middle}" y2="{middle}"/>'
    if check.allowed_error:
        x = _across(check.allowed_error, low, high)
        marks += f'<line class="allowed" x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 8}" y2="{middle + 8}"/>'
    if check.reference_max_error is not None:
        x = _across(check.reference_max_error, low, high)
        marks += f'<circle class="base" cx="{x:.1f}" cy="{middle}" r="6"/>'
    assert check.max_error is not None
    return marks + f'<circle class="ours" cx="{_across(check.max_error, low, high):.1f}" cy="{middle}" r="4"/>'


def _axis(place: int, low: int, high: int) -> str:
    step = max(1, (high - low) // 8)
    y = place * _ROW + 17
    return "".join(
        _text(_across(10.0**power, low, high), y, f"1e{power}", "middle") for power in range(low, high + 1, step)
    )


def _across(error: float, low: int, high: int) -> float:
    place = (math.log10(max(error, _FLOOR)) - low) / (high - low)
    return _LABEL + (_WIDTH - _LABEL - 20) * min(max(place, 0.0), 1.0)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
