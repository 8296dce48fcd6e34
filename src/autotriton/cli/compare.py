"""`autotriton bench compare RUN RUN...`: runs of one suite and the published rows, with a paired test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Two or more runs of one suite, by id or folder.")],
    store: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs are recorded.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Show benchmark runs side by side over their common tasks."""
    from dataclasses import asdict

    from autotriton.bench import comparing, published, records
    from autotriton.cli import show_bench
    from autotriton.cli.show import finite

    found = comparing.compare_channels([records.load(run) for run in records.named(runs, store)])
    if as_json:
        shown = [
            {**one.model_dump(mode="json"), "published": [asdict(row) for row in published.of_suite(one.suite)]}
            for one in found
        ]
        print(json.dumps(finite(shown[0] if len(shown) == 1 else {"channels": shown}), allow_nan=False))
        return
    for one in found:
        show_bench.comparison(one)
