"""Drafts of every source a config names, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autotriton.data import opinfo, wrappers
from autotriton.data.build import tables
from autotriton.data.build.config import BuildConfig, RowsPart
from autotriton.data.harvest import harvest
from autotriton.data.harvest.harvesting import Asker, Report
from autotriton.data.records import Draft, SourceKind
from autotriton.data.rows import Example
from autotriton.data.synth import stream
from autotriton.errors import UsageError


def drafts(config: BuildConfig, report: Report) -> Iterator[Draft]:
    """Synthesis first: it is the largest and needs nothing but a seed."""
    if config.synth.count:
        part = config.synth
        yield from stream(part.seed, part.count, scale=part.scale, recipes=part.recipes, configured=part.configured)
    if config.opinfo.per_operator:
        chosen = config.opinfo
        yield from opinfo.drafts(
            per_operator=chosen.per_operator, dtypes=chosen.dtypes, only=chosen.only, seed=config.seed
        )
    if config.harvest.folders:
        yield from harvest(config.harvest.folders, report, ask=_asker(config))
    if config.wrappers.count:
        yield from wrappers.drafts(config.wrappers.seed, config.wrappers.count)
    if config.rows.folder:
        yield from _known(config.rows)


def _known(part: RowsPart) -> Iterator[Draft]:
    """The tasks of a data set's pairs, each once. Wrappers stay away: they have one answer, their own."""
    seen = set[str]()
    for row in tables.read(tables.place_of(Path(part.folder)), "sft", Example):
        name = row.id.partition("/")[0]
        kind = SourceKind(row.origin.partition(":")[0])
        wanted = not part.families or (row.families and row.families[0] in part.families)
        if wanted and name not in seen and kind is not SourceKind.WRAPPERS:
            seen.add(name)
            task = row.task().model_copy(update={"id": name})
            origin = row.origin.partition(":")[2] or f"{kind}: {name}"
            yield Draft(task=task, kind=kind, origin=origin, licence=row.licence.partition(" and ")[0])


def _asker(config: BuildConfig) -> Asker | None:
    if not config.harvest.endpoint:
        return None
    from autotriton.data.harvest.asking import EndpointAsker

    url, _, model = config.harvest.endpoint.partition("#")
    if not model:
        raise UsageError(f"harvest.endpoint {config.harvest.endpoint!r} names no model", hint="write URL#MODEL")
    return EndpointAsker(url, model)
