"""Two plots for the card: how families are spread, and how long answers are."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotriton.data.build.folder import clear
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import PrerequisiteError

_COLOURS = ("#2559a8", "#b0641a")


def draw(pairs: Sequence[Example], rl: Sequence[TaskRow], folder: Path) -> list[Path]:
    """`families.png` and `lengths.png`."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise PrerequisiteError("plots need matplotlib", hint="pip install 'autotriton[data]'") from None
    written = [folder / "families.png", folder / "lengths.png"]
    with clear(folder):
        _families(figures.Figure(figsize=(8, 4), layout="constrained"), pairs, rl).savefig(written[0], dpi=120)
        _lengths(figures.Figure(figsize=(8, 3), layout="constrained"), pairs).savefig(written[1], dpi=120)
    return written


def _families(figure: Any, pairs: Sequence[Example], rl: Sequence[TaskRow]) -> Any:
    counts = [Counter(row.families[0] if row.families else "none" for row in rows) for rows in (pairs, rl)]
    names = [name for name, _ in (counts[0] + counts[1]).most_common()]
    axes = figure.subplots()
    for place, (count, label, colour) in enumerate(zip(counts, ("pairs", "RL tasks"), _COLOURS, strict=True)):
        total = max(1, count.total())
        values = [100 * count[name] / total for name in names]
        axes.bar([number + 0.4 * place for number in range(len(names))], values, 0.4, label=label, color=colour)
    axes.set_xticks([number + 0.2 for number in range(len(names))], names, rotation=45, ha="right")
    axes.set_ylabel("% of rows")
    axes.legend(frameon=False)
    return figure


def _lengths(figure: Any, pairs: Sequence[Example]) -> Any:
    axes = figure.subplots()
    axes.hist([len(row.completion) for row in pairs], bins=40, color=_COLOURS[0])
    axes.set_xlabel("characters of an answer")
    axes.set_ylabel("pairs")
    return figure
