"""Metrics drawn over steps, one small panel each: a run's own at its end, several runs' over each other.

Must stay true: the same metrics give the same file, and no display or global state of matplotlib's is touched.
"""

from __future__ import annotations

import importlib.util
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.train.comparing import Comparison, Training, running_mean
from autotriton.train.journal import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES_FILE = "curves.png"
_KINDS = (".png", ".svg")
_COLUMNS = 3
_TITLE = 11
_FEW = 15
"""So few measurements are shown as points too."""
_INK, _DIM, _LINE = "#1b1f23", "#656d76", "#e2e4e6"
_COLOURS = ("#2559a8", "#d0701c", "#2f8f5b", "#a8326e", "#7b5fc7", "#1f9bb0", "#8a6d3b", "#6d7f95")
_DASHES = ("-", "--", ":")
"""For more runs than there are colours."""
_STYLE: Any = {  # newer matplotlibs list every key in its type
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _DIM,
    "axes.labelcolor": _DIM,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "grid.color": _LINE,
    "grid.linewidth": 0.7,
    "xtick.color": _DIM,
    "ytick.color": _DIM,
    "text.color": _INK,
    "text.parse_math": False,  # a run's name may have dollars in it
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "autotriton",
}
_Points = Mapping[int, float]


def draw(rows: Sequence[Mapping[str, Any]], names: Sequence[str], path: Path, title: str) -> bool:
    """One run's metrics as they are; False where there is nothing to draw or nothing to draw with."""
    found = {name: {row["step"]: value for row in rows if (value := number(row.get(name))) is not None}
             for name in names}  # fmt: skip
    panels = {name: [points] for name, points in found.items() if points}
    if not panels or importlib.util.find_spec("matplotlib") is None:
        return False
    _save(panels, path, title=title)
    return True


def overlay(found: Comparison, runs: Sequence[Training], path: Path) -> None:
    """Every run of a comparison in each panel: its running mean, and faintly what that is the mean of."""
    if path.suffix.lower() not in _KINDS:
        raise UsageError(f"{path} is neither .png nor .svg", hint="name another --plot")
    if importlib.util.find_spec("matplotlib") is None:
        raise PrerequisiteError("plots need matplotlib", hint="pip install 'autotriton[report]'")
    if not found.metrics:
        raise UsageError("there is nothing to draw: none of the metrics was measured", hint="leave --plot out")
    panels = {name: [run.metrics.get(name, {}) for run in runs] for name in found.metrics}
    labels = [row.label for row in found.runs]
    title = labels[0] if len(labels) == 1 else f"{len(labels)} {found.verb.upper()} runs"
    title += f": running mean over {found.window} step{'s' if found.window > 1 else ''}"
    ends = found.steps if any(row.steps > found.steps for row in found.runs) else None
    title += "; dotted: the end of the shortest run" if ends is not None else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _save(panels, path, title=title, labels=labels, window=found.window, ends=ends)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", hint="name another --plot") from None


def _save(panels: Mapping[str, Sequence[_Points]], path: Path, **how: Any) -> None:
    """Drawn beside its place, then moved there in one step."""
    import matplotlib

    kind = path.suffix.lower()
    beside = path.with_name(f".{path.name}")
    try:
        with matplotlib.rc_context(_STYLE):
            # Without the date, so that the same metrics give the same file.
            metadata = {"Date": None} if kind == ".svg" else {"Software": None}
            _figure(panels, **how).savefig(beside, format=kind[1:], dpi=150, metadata=metadata)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _figure(
    panels: Mapping[str, Sequence[_Points]],
    *,
    title: str,
    labels: Sequence[str] = (),
    window: int = 1,
    ends: int | None = None,
) -> Figure:
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    keys = [textwrap.fill(label, 44) for label in labels] if len(labels) > 1 else []
    beside = max(2, columns)
    above = -(-len(keys) // beside) * max((1 + key.count("\n") for key in keys), default=0)
    size = (max(7.0, 3.9 * columns), 2.4 * lines + 0.5 + 0.17 * above)
    figure = Figure(figsize=size, layout="constrained")
    if keys:
        _legend(figure, title, keys, beside)
    else:
        figure.suptitle(title, x=0.01, ha="left", fontsize=_TITLE)
    figure.supxlabel("step", fontsize=9, color=_DIM)
    first: Axes | None = None
    for place, (name, runs) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(lines, columns, place, sharex=first)
        first = first or axes
        _panel(axes, runs, window)
        axes.set_title(name)
        if ends is not None:
            axes.axvline(ends, color=_DIM, linewidth=0.8, linestyle=":")
    return figure


def _panel(axes: Axes, runs: Sequence[_Points], window: int) -> None:
    from matplotlib.ticker import MaxNLocator

    for place, points in enumerate(runs):
        if not points:
            continue
        look = _look(place)
        steps = sorted(points)
        if window > 1:
            axes.plot(steps, [points[step] for step in steps], **look, alpha=0.22, linewidth=0.8)
        means = running_mean(points, window)
        marker = "o" if len(points) <= _FEW else ""
        axes.plot(steps, [means[step] for step in steps], **look, linewidth=1.6, marker=marker, markersize=3.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _legend(figure: Figure, title: str, labels: Sequence[str], columns: int) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        handles=[Line2D([], [], **_look(run), linewidth=2, label=label) for run, label in enumerate(labels)],
        loc="outside upper left", ncols=min(columns, len(labels)), title=title, title_fontsize=_TITLE, alignment="left",
    )  # fmt: skip


def _look(run: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[run % len(_COLOURS)],
        "linestyle": _DASHES[run // len(_COLOURS) % len(_DASHES)],
    }
