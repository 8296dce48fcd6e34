"""The templates' answers of a data set as they are written today. Questions and splits stay; what changed is judged.

Must stay true: a row whose program changed is in the set only if the judge accepted the new program; a kill costs no
verdict.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autotriton.data.build import judging, routes, tables
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.counting import describe
from autotriton.data.build.finishing import REMOVED_FILE, STATS_FILE, write_dataset
from autotriton.data.build.folder import Lines, read_json
from autotriton.data.build.forming import Wish, formed
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.records import Removed
from autotriton.data.build.verifying import asked_name
from autotriton.data.pairs.wording import request
from autotriton.data.quality.sizes import sizes_are_fixed
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import ProposerError, UsageError
from autotriton.judge import Judge
from autotriton.judge.pool import Judgement, judge_many
from autotriton.propose.compiler.serving import TemplatesServer
from autotriton.propose.compiler.templates.options import PLAIN
from autotriton.types import Record, Task

JOURNAL = "renewed.jsonl"
_AT_ONCE = 256


class Renewed(Record):
    """What became of one row. Without an example it leaves the set, and `why` says why."""

    row: str
    example: Example | None = None
    why: str = ""


def renew(
    config: BuildConfig,
    folder: Path,
    *,
    families: Sequence[str] = (),
    workers: int | None = None,
    device: str = "auto",
    watch: Watcher = lambda _: None,
) -> Progress:
    """`families`: only rows in which one of these operator families computes."""
    place = tables.place_of(folder)
    rows = tables.read(place, "sft", Example)
    stats = read_json(place / STATS_FILE)
    if stats is None:
        raise UsageError(f"{place} holds no {STATS_FILE}", hint="name a data set made by `autotriton data build`")
    if stats["name"] != config.name:
        raise UsageError(f"{place} is the set {stats['name']!r}, the config makes {config.name!r}")
    journal = Lines(place / JOURNAL, Renewed)
    own = [row for row in rows if row.route == routes.TEMPLATES]
    wanted = [row for row in own if not families or set(families) & set(row.families)]
    done = {line.row for line in journal}
    left = [row for row in wanted if row.id not in done]
    progress = Progress("renew", total=len(left), before=len(wanted) - len(left))

    def record(line: Renewed) -> None:
        journal.append(line)
        progress.done += 1
        progress.counts[line.why.partition(":")[0] or "renewed"] += 1
        watch(progress)

    try:
        with Judge(judging.options(config, device)) as judge:
            for start in range(0, len(left), _AT_ONCE):
                _renew(left[start : start + _AT_ONCE], config, judge, workers, record)
        _write(config, place, rows, {line.row: line for line in journal}, stats)
    finally:
        journal.close()
    (place / JOURNAL).unlink(missing_ok=True)
    progress.ended = time.monotonic()
    return progress


def _renew(
    rows: list[Example], config: BuildConfig, judge: Judge, workers: int | None, record: Callable[[Renewed], None]
) -> None:
    changed = []
    for row, made in _written(rows, config, workers):
        if isinstance(made, str):
            record(Renewed(row=row.id, why=made))
        elif made.code == row.code:
            record(Renewed(row=row.id, example=row, why="the same"))
        elif row.way == PLAIN.name and sizes_are_fixed(made.code):
            record(Renewed(row=row.id, why="written for one size only"))
        else:
            changed.append((row, made))
    jobs = [(row.task(), made.code) for row, made in changed]
    for judgement in judge_many(jobs, workers=workers, judge=judge):
        record(_judged(*changed[judgement.index], judgement))


def _judged(row: Example, made: Example, judgement: Judgement) -> Renewed:
    verdict = judgement.verdict
    if verdict is None:
        return Renewed(row=row.id, why=f"unjudged: {(judgement.error or '')[:300]}")
    if not verdict.accepted or verdict.torch_ops:
        return Renewed(row=row.id, why=f"{verdict.outcome.value}: {verdict.message[:300]}")
    errors = [check.max_error for check in verdict.checks if check.max_error is not None]
    known = {
        "policy": verdict.policy.value,
        "tier": verdict.tier.value,
        "judge_version": verdict.judge_version,
        "cases": len(verdict.checks),
        "max_error": max(errors, default=None),
        "kernels": len(verdict.kernels),
    }
    return Renewed(row=row.id, example=made.model_copy(update=known))


def _written(rows: list[Example], config: BuildConfig, workers: int | None) -> Iterator[tuple[Example, Example | str]]:
    """Each row with its answer of today, or why there is none."""
    count = workers or os.cpu_count() or 1
    found = _proposed(rows, config, count)
    wishes, asked = [], []
    for row in rows:
        made = found[row.id]
        if isinstance(made, str):
            yield row, made
        else:
            asked.append(row)
            wishes.append(Wish(made, _form(row) + 1, str(config.seed), asked_name(row.task())))
    for row, wish, forms in zip(asked, wishes, formed(wishes, count), strict=True):
        number = _form(row)
        if isinstance(forms, str) or len(forms) <= number:
            yield row, f"no form: {forms if isinstance(forms, str) else 'it has no other'}"
            continue
        name = f"{row.id.rpartition('/')[0]}/templates-{wish.candidate.id[:6]}-{number}"
        # What is asked for follows what the program defines: a function of a name, or a class.
        prompt = row.prompt.replace(request(row.task(), row.code), request(row.task(), forms[number].code))
        told = {"id": name, "prompt": prompt, "code": forms[number].code, "completion": forms[number].completion}
        yield row, row.model_copy(update=told)


def _task(row: Example) -> Task:
    """As it was when it was answered first: candidates are named after their text, in which the task's name stands."""
    return row.task().model_copy(update={"id": row.id.rpartition("/")[0]})


def _form(row: Example) -> int:
    return int(row.id.rpartition("-")[2])


def _proposed(rows: list[Example], config: BuildConfig, count: int) -> dict[str, Any]:
    """The candidate of each row, by id, or why there is none."""
    waiting: queue.SimpleQueue[Example] = queue.SimpleQueue()
    for row in rows:
        waiting.put(row)
    found: dict[str, Any] = {}
    failures: list[BaseException] = []

    def work() -> None:
        servers: dict[str, TemplatesServer] = {}
        try:
            while not failures:
                try:
                    row = waiting.get_nowait()
                except queue.Empty:
                    return
                if row.way not in servers:
                    servers[row.way] = TemplatesServer(config.propose.deadline_s, row.way)
                try:
                    found[row.id] = next(iter(servers[row.way].propose(_task(row), ())))
                except ProposerError as error:
                    found[row.id] = f"not proposed: {' '.join(str(error.args[0]).split())[:300]}"
        except BaseException as error:  # noqa: BLE001 - kept and raised in the caller's thread
            failures.append(error)
        finally:
            for server in servers.values():
                server.close()

    threads = [threading.Thread(target=work, name=f"renew-{number}") for number in range(min(count, len(rows)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        failures.append(error)  # the workers stop after the row they have
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]
    return found


def _write(
    config: BuildConfig, place: Path, rows: list[Example], lines: dict[str, Renewed], stats: dict[str, Any]
) -> None:
    removed = [Removed.model_validate_json(line) for line in (place / REMOVED_FILE).read_text("utf-8").splitlines()]
    pairs = []
    for row in rows:
        line = lines.get(row.id)
        if line is None:
            pairs.append(row)
        elif line.example is not None:
            pairs.append(line.example)
        else:
            removed.append(Removed(row=row.id, stage="renew", reason=line.why))
    rl, held_out = tables.read(place, "rl", TaskRow), tables.read(place, "held_out", TaskRow)
    told = json.loads(json.dumps({**stats, **describe(pairs, rl, held_out)}))
    write_dataset(place, config, pairs, rl, held_out, removed, told)
