"""`autotriton data build|renew|stats|export|verify`: training data from a config. Exit 1: rows that do not hold."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotriton.errors import UsageError
from autotriton.types import Tier

if TYPE_CHECKING:
    from autotriton.data.build.progress import Progress, Watcher

app = typer.Typer(help="Training data: tasks gathered, answered, verified by the judge, split and exported.")


class Stage(StrEnum):
    GATHER = "gather"
    PROPOSE = "propose"
    VERIFY = "verify"
    FINISH = "finish"
    ALL = "all"


class Form(StrEnum):
    TRL = "trl"
    VERL = "verl"
    JSONL = "jsonl"


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


_Json = Annotated[bool, typer.Option("--json", help="The result as JSON.")]
_Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A build's folder, or the data set in it.")]
_Workers = Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes at work; one per core by default.")]
_Device = Annotated[Device, typer.Option(help="Where answers are judged.")]


@app.command()
def build(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file; configs/data/ has examples.")],
    folder: Annotated[Path | None, typer.Option(metavar="DIR", help="Its folder; builds/NAME by default.")] = None,
    stage: Annotated[Stage, typer.Option(help="Only this stage, for builds split over machines.")] = Stage.ALL,
    against: Annotated[
        list[Path] | None, typer.Option(metavar="ROOT", help="A benchmark's checkout to keep out. Repeatable.")
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="K/N", help="Propose and verify only part K of N of the tasks.")
    ] = "1/1",
    merge: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="First take over what another folder of a split build has.")
    ] = None,
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one value of the config. Repeatable.")
    ] = None,
    workers: _Workers = None,
    device: _Device = Device.AUTO,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """Build a data set, or go on with one: a killed build loses nothing."""
    from autotriton.configs import load
    from autotriton.data.build import building
    from autotriton.data.build.config import BuildConfig

    wanted = load(BuildConfig, config, set or ())
    place = folder or Path("builds") / wanted.name
    machine = building.Machine(workers, device.value, _shard(shard), tuple(against or ()))
    stages = building.STAGES if stage is Stage.ALL else (stage.value,)
    told: list[Progress] = []
    if merge:
        told.append(building.merge(wanted, place, merge))
        _say(told[-1], as_json)
    with _watching() as watch:
        for progress in building.build(wanted, place, stages, machine, watch):
            told.append(progress)
            _say(progress, as_json)
    if as_json:
        print(json.dumps({"folder": str(place), "stages": [_values(progress) for progress in told]}))
    elif stages[-1] == "finish":
        print(f"{place / 'dataset'}: sft.parquet, rl.parquet, held_out.parquet, card.md")


@app.command()
def renew(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config the set was built from.")],
    folder: _Folder,
    family: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only rows with operators of this family. Repeatable.")
    ] = None,
    workers: _Workers = None,
    device: _Device = Device.AUTO,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """Write the templates' answers anew, as they are written today; what changed is judged. Goes on after a kill."""
    from autotriton.configs import load
    from autotriton.data.build.config import BuildConfig
    from autotriton.data.build.renewing import renew as write_anew

    wanted = load(BuildConfig, config, ())
    with _watching() as watch:
        progress = write_anew(wanted, folder, families=family or (), workers=workers, device=device.value, watch=watch)
    _say(progress, as_json)
    if as_json:
        print(json.dumps({"folder": str(folder), "stages": [_values(progress)]}))


@app.command()
def stats(
    folder: _Folder,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Write plots there.")] = None,
    as_json: _Json = False,
) -> None:
    """Counts by source, route, family, difficulty and length."""
    from autotriton.data.build import tables
    from autotriton.data.build.counting import describe
    from autotriton.data.rows import Example, TaskRow

    place = tables.place_of(folder)
    pairs = tables.read(place, "sft", Example)
    rl, held_out = tables.read(place, "rl", TaskRow), tables.read(place, "held_out", TaskRow)
    found = describe(pairs, rl, held_out)
    if plots is not None:
        from autotriton.data.build.plots import draw

        plots.mkdir(parents=True, exist_ok=True)
        draw(pairs, rl, plots)
    if as_json:
        print(json.dumps(found))
        return
    _show(found)


@app.command()
def export(
    form: Annotated[Form, typer.Argument(help="Whose reader it is for.")],
    folder: _Folder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write to.")],
    as_json: _Json = False,
) -> None:
    """The data set as TRL's conversations, verl's Parquet, or JSON lines."""
    from autotriton.data.build.exporting import export as write

    written = write(form.value, folder, out)
    print(json.dumps({"files": [str(path) for path in written]}) if as_json else "\n".join(map(str, written)))


@app.command()
def verify(
    folder: _Folder,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Random rows to judge again.")] = 300,
    seed: Annotated[int | None, typer.Option(help="Chooses the rows; never the judge's inputs.")] = None,
    tier: Annotated[Tier | None, typer.Option(help="How far to go; correctness on this machine by default.")] = None,
    workers: _Workers = None,
    device: _Device = Device.AUTO,
    as_json: _Json = False,
) -> None:
    """Judge random rows once more, with fresh seeds. Exit 1 unless every one of them is correct."""
    from autotriton.data.build.reverifying import reverify

    with _watching() as watch:
        found = reverify(folder, rows, seed=seed, device=device.value, tier=tier, workers=workers, watch=watch)
    if as_json:
        print(json.dumps({"rows": found.rows, "outcomes": dict(found.outcomes), "failed": found.failed}))
    else:
        print(f"{found.outcomes['correct']} of {found.rows} rows are correct ({found.seconds:.0f} s)")
        for name, why in found.failed.items():
            print(f"{name}: {why}")
    if not found.held:
        raise typer.Exit(1)


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text!r} is not of the form K/N with K from 1 to N")
    return int(found[1]) - 1, int(found[2])


def _values(progress: Progress) -> dict[str, Any]:
    about = {"stage": progress.stage, "done": progress.done, "before": progress.before}
    return {**about, "seconds": round(progress.seconds, 2), "counts": dict(progress.counts), "notes": progress.notes}


def _say(progress: Progress, as_json: bool) -> None:
    out = sys.stderr if as_json else sys.stdout
    print(progress.line(), file=out)
    for note in progress.notes:
        print(f"  {note}", file=out)


@contextmanager
def _watching() -> Iterator[Watcher]:
    """A bar on a terminal, silence elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, emoji=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        bars: dict[str, Any] = {}

        def watch(progress: Progress) -> None:
            if progress.stage not in bars:
                bars[progress.stage] = bar.add_task(progress.stage)
            said = ", ".join(f"{count} {name}" for name, count in progress.counts.most_common(3))
            bar.update(
                bars[progress.stage],
                completed=progress.done,
                total=progress.total,
                description=f"{progress.stage} [dim]{said}[/]",
            )

        yield watch


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    files = ("sft", "rl", "held_out")
    table = Table("", *files, box=None)
    for key in ("rows", "graphs", "ops", "largest_family_share"):
        table.add_row(key.replace("_", " "), *(str(found[name][key]) for name in files))
    for key in ("sources", "families", "difficulty"):
        table.add_section()
        names = dict.fromkeys(name for part in files for name in found[part][key])
        for name in names:
            table.add_row(name, *(str(found[part][key].get(name, 0)) for part in files))
    table.add_section()
    for name, count in found["sft"]["routes"].items():
        table.add_row(f"route {name}", str(count), "", "")
    console = Console(emoji=False, highlight=False, markup=False)
    console.print(table)
    length = found["sft"]["answer_characters"]
    if length is not None:
        console.print(f"answers: {length['median']} characters in the median, p10 {length['p10']}, p90 {length['p90']}")
