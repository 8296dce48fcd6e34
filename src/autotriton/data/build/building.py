"""The stages in order, over one folder. Each goes on where it was stopped; a finished one is passed over.

    gather (and select) -> propose -> verify -> finish

A build may be split: any stage runs wherever the folder is copied to, shards of `propose` and `verify` run side by side
in copies, and `merge` brings their lines together.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.configs import plain
from autotriton.data.build import benchmarks
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.finishing import finish
from autotriton.data.build.folder import CONFIG_FILE, SELECTION_FILE, Folder, Lines, differences, read_json, whole
from autotriton.data.build.folder import write_whole_file as write_file
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.proposing import propose
from autotriton.data.build.selecting import select
from autotriton.data.build.sources import drafts
from autotriton.data.build.verifying import verify
from autotriton.data.gather import GatherOptions, Summary, gather, gathered
from autotriton.data.harvest import Report
from autotriton.errors import UsageError
from autotriton.judge.processes import Processes

STAGES = ("gather", "propose", "verify", "finish")


@dataclass(frozen=True)
class Machine:
    """What this machine brings; none of it changes the data set."""

    workers: int | None = None
    device: str = "auto"
    shard: tuple[int, int] = (0, 1)
    against: tuple[Path, ...] = ()

    @property
    def threads(self) -> int:
        return self.workers or max(1, min(os.cpu_count() or 1, 16))


def build(
    config: BuildConfig,
    path: Path,
    stages: Sequence[str] = STAGES,
    machine: Machine | None = None,
    watch: Watcher = lambda _: None,
) -> Iterator[Progress]:
    """Runs the stages; each one's end is told as it comes."""
    machine = machine or Machine()
    with Folder(path, config) as folder:
        for stage in stages:
            if stage == "gather":
                yield _gather(folder, machine, watch)
            elif folder.selection() is None:
                raise UsageError(f"{path} has no selected tasks", hint="run the stage `gather` first")
            elif stage == "propose":
                yield propose(folder, workers=machine.threads, shard=machine.shard, watch=watch)
            elif stage == "verify":
                yield verify(folder, workers=machine.workers, shard=machine.shard, device=machine.device, watch=watch)
            else:
                _need_benchmarks(config, machine)
                yield finish(folder, machine.against)


def merge(config: BuildConfig, path: Path, others: Sequence[Path]) -> Progress:
    """Lines of other folders of the same build, each once."""
    progress = Progress("merge")
    with Folder(path, config) as folder:
        for other in others:
            found = read_json(other / CONFIG_FILE)
            if found is None:
                raise UsageError(f"{other} is no folder of a build", hint=f"it has no {CONFIG_FILE}")
            if changed := differences(plain(config), whole(found)):
                raise UsageError(f"{other} was built with another config; these differ: {', '.join(changed)}")
            if (other / SELECTION_FILE).exists():
                _same_selection(folder, other)
            progress.counts["proposals"] += _merged(folder.proposals, other)
            progress.counts["answers"] += _merged(folder.judged, other)
    progress.done, progress.ended = progress.counts.total(), time.monotonic()
    return progress


def _merged(lines: Lines[Any], other: Path) -> int:
    known = {record.key for record in lines}
    count = 0
    for record in Lines(other / lines.path.name, lines.kind):
        if record.key not in known:
            known.add(record.key)
            lines.append(record)
            count += 1
    return count


def _same_selection(folder: Folder, other: Path) -> None:
    """Both split the same tasks; a folder without a selection takes the other's."""
    theirs = read_json(other / SELECTION_FILE)
    if folder.selection() is None:
        folder.selected.replace(Lines(other / folder.selected.path.name, folder.selected.kind))
        write_file(folder.path / SELECTION_FILE, json.dumps(theirs, indent=1) + "\n")
    mine = {chosen.key for chosen in folder.selected}
    if mine != {chosen.key for chosen in Lines(other / folder.selected.path.name, folder.selected.kind)}:
        raise UsageError(f"{other} selected other tasks", hint="gather once, copy the folder, then split")


def _gather(folder: Folder, machine: Machine, watch: Watcher) -> Progress:
    progress = Progress("gather")
    kept = folder.selection()
    if kept is not None:
        _same_benchmarks(folder, kept, machine)
        progress.before, progress.ended = kept["gathered"], time.monotonic()
        return progress
    config = folder.config
    _need_benchmarks(config, machine)
    for package in config.harvest.folders:  # now, not after hours of synthesis
        if not Path(package).is_dir():
            raise UsageError(f"harvest.folders: {package} is not a folder", hint="name unpacked packages")
    report = Report()
    options = GatherOptions(
        seed=config.seed,
        device="cuda" if config.synth.scale == "gpu" else "cpu",
        deadline_s=config.gather.deadline_s,
        max_runs=config.gather.max_runs,
    )

    def told(summary: Summary) -> None:
        progress.done, progress.before = summary.drafts, summary.skipped
        progress.counts = Counter({"admitted": summary.admitted, **summary.refused})
        watch(progress)

    processes = Processes()
    try:
        gather(
            drafts(config, report),
            folder.gathered,
            options,
            workers=machine.workers,
            progress=told,
            processes=processes,
        )
        against = benchmarks.with_graphs(machine.against, processes) if machine.against else None
    finally:
        processes.close()
    _select(folder, report, against)
    progress.notes += [f"{name} was left out: {why}" for name, why in report.refused.items()]
    progress.notes += [f"broken file {problem.path}: {problem.why}" for problem in report.problems[:5]]
    progress.ended = time.monotonic()
    return progress


def _select(folder: Folder, report: Report, against: benchmarks.Kept | None) -> None:
    rows = list(gathered(folder.gathered))
    chosen, removed = select(rows, folder.config, against)
    about = None
    if against is not None:
        about = {
            "roots": against.roots,
            "files": against.files,
            "digest": against.digest,
            "graphs": against.graphs,
            "without_graph": against.without_graph,
        }
    selection = {
        "gathered": len(rows),
        "selected": len(chosen),
        "benchmarks": about,
        "harvest": {
            "packages": report.packages,
            "refused": report.refused,
            "problems": {problem.path: problem.why for problem in report.problems},
            "left_out": dict(report.left_out),
        },
        "removed": [row.model_dump(mode="json") for row in removed],
    }
    folder.selected.replace(chosen)
    # Last: it says that gathering is over.
    write_file(folder.path / SELECTION_FILE, json.dumps(selection, indent=1) + "\n")


def _need_benchmarks(config: BuildConfig, machine: Machine) -> None:
    if config.select.decontaminate and not machine.against:
        raise UsageError(
            "no benchmark to keep out is named",
            hint="name checkouts with --against, or set select.decontaminate = false",
        )


def _same_benchmarks(folder: Folder, kept: dict[str, Any], machine: Machine) -> None:
    if not machine.against:
        return
    before = (kept["benchmarks"] or {}).get("digest")
    if benchmarks.texts(machine.against).digest != before:
        raise UsageError(
            f"{folder.path} was selected against other benchmarks", hint="name the same, or use another folder"
        )
