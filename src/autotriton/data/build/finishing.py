"""Verified answers become the data set: near twins out, families capped, three Parquet files, numbers and a card.

Must stay true: what is written depends on the folder's lines and the config, never on the order they came in.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotriton.data.build import benchmarks, card, plots, tables
from autotriton.data.build.capping import capped, shuffled
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.counting import describe
from autotriton.data.build.folder import Folder, clear, write_whole_file
from autotriton.data.build.progress import Progress
from autotriton.data.build.questions import task_row
from autotriton.data.build.records import Removed, Selected
from autotriton.data.build.selecting import hardness
from autotriton.data.gather import gathered, refusals
from autotriton.data.quality.dedupe import distinct
from autotriton.data.quality.sizes import sizes_are_fixed
from autotriton.data.quality.split import HELD_OUT, REINFORCE, TEACH
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import UsageError
from autotriton.propose.compiler.templates.options import PLAIN

REMOVED_FILE, STATS_FILE = "removed.jsonl", "stats.json"


def finish(folder: Folder, against: Sequence[Path] = ()) -> Progress:
    progress = Progress("finish")
    config = folder.config
    selection = folder.selection()
    if selection is None:
        raise UsageError(f"{folder.path} has no selected tasks", hint="run the stage `gather` first")
    removed = [Removed.model_validate(row) for row in selection["removed"]]
    pairs = _pairs(folder, config, benchmarks.texts(against) if against else None, removed)
    rl, held_out = _tasks(list(folder.selected), pairs, config, removed)
    if not pairs:
        raise UsageError(f"{folder.path} holds no verified pair", hint="run the stages `propose` and `verify` first")
    stats = {
        "name": config.name,
        **describe(pairs, rl, held_out),
        "build": {
            "gathered": sum(1 for _ in gathered(folder.gathered)),
            "refused": dict(Counter(row.reason for row in refusals(folder.gathered)).most_common()),
            "proposed": dict(Counter(row.failure or row.route for row in folder.proposals).most_common()),
            "judged": dict(Counter(row.outcome for row in folder.judged).most_common()),
            "removed": dict(Counter(f"{row.stage}: {row.reason}" for row in removed).most_common()),
            "benchmarks": selection["benchmarks"],
            "harvest": selection["harvest"],
        },
    }
    write_dataset(folder.dataset, config, pairs, rl, held_out, removed, stats)
    progress.done, progress.ended = len(pairs) + len(rl) + len(held_out), time.monotonic()
    progress.counts.update({"pairs": len(pairs), "RL tasks": len(rl), "held-out tasks": len(held_out)})
    return progress


def _pairs(folder: Folder, config: BuildConfig, kept: benchmarks.Kept | None, removed: list[Removed]) -> list[Example]:
    def drop(row: Example, reason: str) -> None:
        removed.append(Removed(row=row.id, stage="finish", reason=reason))

    taught = {one.key for one in folder.selected if one.side == TEACH}
    found = {
        judged.key: (judged.task_hash, judged.form, judged.example)
        for judged in folder.judged
        if judged.example is not None
    }
    rows: list[tuple[int, Example]] = []
    for task_hash, form, row in found.values():
        assert row is not None
        # A selection may have been made again since: what is held out now was perhaps answered before.
        if task_hash not in taught:
            drop(row, "its task no longer teaches")
        elif kept is not None and (copied := kept.found.find(row.id, row.code)):
            drop(row, f"answer like a benchmark's: {copied.how}")
        elif len(row.prompt) + len(row.completion) > config.finish.longest:
            drop(row, "too long")
        elif config.propose.way == PLAIN.name and sizes_are_fixed(row.code):
            drop(row, "written for one size only")
        else:
            rows.append((form, row))
    # First forms before second ones: where rows are cut, variety of tasks stays.
    rows = shuffled(rows, lambda pair: pair[1].id, config.seed)
    rows.sort(key=lambda pair: pair[0])
    apart = distinct(
        [row for _, row in rows],
        lambda row: f"{row.source}\n\n{row.code}",
        lambda row, why: drop(row, f"twin pair: {why}"),
        config.finish.near,
        by_form=False,
    )
    final = capped(list(apart), _family, config.select.family_share, config.finish.pairs, drop)
    return shuffled(final, lambda row: row.id, config.seed + 1)


def _tasks(
    selected: list[Selected], pairs: list[Example], config: BuildConfig, removed: list[Removed]
) -> tuple[list[TaskRow], list[TaskRow]]:
    """RL asks what was kept for it, and the teaching tasks nobody could answer."""
    answered = {(row.source, row.entry) for row in pairs}
    asked = [one for one in selected if one.side == REINFORCE]
    open_tasks = [
        one for one in selected if one.side == TEACH and (one.task.task.source, one.task.task.entry) not in answered
    ]
    open_tasks = sorted(shuffled(open_tasks, _key, config.seed), key=lambda one: -hardness(one.task))

    def drop(one: Selected, why: str) -> None:
        removed.append(Removed(row=one.task.task.id, stage="finish", reason=f"rl: {why}"))

    share = config.select.family_share
    rl = capped([*asked, *open_tasks], lambda one: one.task.family, share, config.finish.rl, drop)
    held_out = [one for one in selected if one.side == HELD_OUT]
    made: Callable[[Selected], TaskRow] = lambda one: task_row(one.task, config)  # noqa: E731 - typed for both lists
    return [made(one) for one in shuffled(rl, _key, config.seed)], [
        made(one) for one in shuffled(held_out, _key, config.seed)
    ]


def write_dataset(
    place: Path,
    config: BuildConfig,
    pairs: list[Example],
    rl: list[TaskRow],
    held_out: list[TaskRow],
    removed: list[Removed],
    stats: dict[str, Any],
) -> None:
    with clear(place):
        place.mkdir(parents=True, exist_ok=True)
    files: dict[str, Sequence[TaskRow]] = {"sft": pairs, "rl": rl, "held_out": held_out}
    for name, rows in files.items():
        tables.write(rows, tables.FILES[name], place / f"{name}.parquet")
    write_whole_file(place / REMOVED_FILE, "".join(row.model_dump_json() + "\n" for row in removed))
    write_whole_file(place / STATS_FILE, json.dumps(stats, indent=1) + "\n")
    plots.draw(pairs, rl, place)
    write_whole_file(place / "card.md", card.text(config, stats, pairs, removed))
    write_whole_file(place / "README.md", card.front(config.name))


def _family(row: TaskRow) -> str:
    return row.families[0] if row.families else "none"


def _key(one: Selected) -> str:
    return one.key
