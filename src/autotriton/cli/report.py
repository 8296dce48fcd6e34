"""`autotriton report RUN...`: benchmark runs as tables on the screen, as one page, as plots."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs of `bench`, by id or folder.")],
    store: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs are recorded.")] = Path("runs"),
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page that works offline.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the plots as PNG and SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The scores as JSON.")] = False,
) -> None:
    """Show benchmark runs: every number with its interval, beside the published ones."""
    from autotriton.bench import metrics, records
    from autotriton.cli import show_bench
    from autotriton.cli.show import finite
    from autotriton.report import folder

    found = [channel for run in records.named(runs, store) for channel in records.channels(records.load(run))]
    scores = [metrics.score(run) for run in found]
    written: list[Path] = []
    if plots is not None:
        from autotriton.report.plots import draw

        written += draw(found, plots)
    if html is not None:
        from autotriton.report.bench_page import page

        written.append(folder.write_text(html, page(found), option="--html"))
    if as_json:
        about = {
            "scores": [score.model_dump(mode="json") for score in scores],
            "files": [str(path) for path in written],
        }
        print(json.dumps(finite(about), allow_nan=False))
        return
    if not written:
        show_bench.scores(scores)
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
