"""The page's charts as files for papers and slides: PNG and SVG, by matplotlib, which is asked for only here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotriton.bench.metrics import baselines, score
from autotriton.bench.published import channel
from autotriton.bench.records import BenchRun
from autotriton.bench.tally import Row, tally
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.report import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_INK, _DIM, _LINE = "#1b1f23", "#656d76", "#e2e4e6"
_COLOURS = {
    "correct": "#2f8f5b",
    "wrong": "#d39b3d",
    "refused": "#a8506e",
    "failed": "#6d7f95",
    "absent": "#c9ced4",
    "unscored": "#e6d9b8",
}
_LINES = {"eager": "#2559a8", "compile": "#b0641a"}
_NAMES = {"compile": "torch.compile"}
_STYLE: Any = {  # newer matplotlibs list every key in its type
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _DIM,
    "axes.labelcolor": _INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "xtick.color": _DIM,
    "ytick.color": _DIM,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "autotriton",
}


def draw(runs: Sequence[BenchRun], folder: Path) -> list[Path]:
    """Four plots per run, each in both formats; returns what was written."""
    try:
        import matplotlib
    except ImportError:
        raise PrerequisiteError("plots need matplotlib", hint="pip install 'autotriton[report]'") from None
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(_STYLE):
            for run in runs:
                for name, figure in _figures(run):
                    written += _save(figure, folder / f"{run.info.id}-{run.suite.name}-{name}")
    except OSError as error:
        raise UsageError(
            f"cannot write into {folder}: {error.strerror or error}", hint="name another --plots"
        ) from None
    return written


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        # Without the date, so that the same run gives the same file.
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        beside = path.with_name(f".{path.name}")
        figure.savefig(beside, format=path.suffix[1:], dpi=160, metadata=metadata)
        os.replace(beside, path)
    return paths


def _figures(run: BenchRun) -> list[tuple[str, Figure]]:
    """Only what there is something to show of."""
    rows, known = tally(run), channel(run.suite.name)
    title = f"{known.title if known else run.suite.name}, {score(run).proposer}"
    timed = [name for name in baselines(rows) if series.speedups(rows, name)]
    found = [(f"speedups-{name}", _distribution(rows, name, title)) for name in timed]
    if timed:
        found.append(("fast-p", _curves(rows, timed, title)))
    found.append(("outcomes", _outcomes(rows, title)))
    caught = score(run).cheats
    if caught:
        figure, axes = _blank(0.32 * len(caught) + 1.0)
        names = [one.kind.value.replace("_", " ") for one in caught]
        shares = [100 * one.share.hits / one.share.of for one in caught]
        bars = axes.barh(names, shares, color=_COLOURS["refused"], height=0.7)
        axes.bar_label(bars, [str(int(one.share.hits)) for one in caught], padding=3, color=_DIM)
        axes.invert_yaxis()
        axes.set(title=f"Cheats caught: {title}", xlabel=f"% of {caught[0].share.of} candidates")
        found.append(("cheats", figure))
    return found


def _blank(height: float = 3.2) -> tuple[Figure, Axes]:
    """A figure of its own, without pyplot's global state or a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _distribution(rows: Sequence[Row], baseline: str, title: str) -> Figure:
    figure, axes = _blank()
    counts = series.histogram(series.speedups(rows, baseline))
    left, right = series.BIN_EDGES[:-1], series.BIN_EDGES[1:]
    colours = [_COLOURS["correct" if low >= 1 else "absent"] for low in left]
    widths = [high - low for low, high in zip(left, right, strict=True)]
    axes.bar(left, counts, widths, align="edge", color=colours, edgecolor="white", linewidth=0.8)
    axes.axvline(1, color=_DIM, linewidth=0.8, linestyle=":")
    _ratios(axes)
    shown = series.shown_bins(counts)
    axes.set_xlim(series.BIN_EDGES[shown.start], series.BIN_EDGES[shown.stop])
    axes.set(title=f"Speed-ups: {title}", xlabel=f"over {_NAMES.get(baseline, baseline)}", ylabel="correct candidates")
    _whole(axes.yaxis)
    return figure


def _curves(rows: Sequence[Row], names: Sequence[str], title: str) -> Figure:
    figure, axes = _blank()
    for name in names:
        found, colour = series.curve(rows, name), _LINES.get(name, _DIM)
        shares = [100 * share for share in found.sure]
        axes.plot(series.THRESHOLDS, shares, color=colour, label=f"over {_NAMES.get(name, name)}")
        plain = [100 * share for share in found.median]
        axes.plot(series.THRESHOLDS, plain, color=colour, linestyle=":", linewidth=1)
    axes.axvline(1, color=_DIM, linewidth=0.8, linestyle=":")
    _ratios(axes)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=_LINE)
    axes.legend()
    axes.set(title=f"fast_p: {title}", xlabel="p (solid: lower end of the interval; dotted: ratio of medians)")
    axes.set_ylabel("% of all tasks")
    return figure


def _outcomes(rows: Sequence[Row], title: str) -> Figure:
    families = series.families(rows)
    figure, axes = _blank(0.3 * len(families) + 1.4)
    names, left = [family.name for family in families], [0] * len(families)
    for key, label in series.GROUPS.items():
        counts = [family.counts.get(key, 0) for family in families]
        if any(counts):
            axes.barh(names, counts, left=left, color=_COLOURS[key], label=label, height=0.72)
            left = [before + count for before, count in zip(left, counts, strict=True)]
    axes.invert_yaxis()
    figure.legend(ncols=3, loc="outside lower left", fontsize=8)
    axes.set(title=f"Outcomes by operator family: {title}")
    _whole(axes.xaxis)
    return figure


def _whole(axis: Axis) -> None:
    """Candidates are counted in whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _ratios(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x" if ratio >= 1 else f"1/{1 / ratio:g}x"))
    axes.xaxis.set_minor_locator(NullLocator())
