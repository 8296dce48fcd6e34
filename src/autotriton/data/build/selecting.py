"""Gathered tasks become selected ones: twins and benchmarks out, each graph on one side, no family too large.

Must stay true: the result depends on the set of gathered tasks and the config, never on the order they came in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from autotriton.data.build.benchmarks import Kept
from autotriton.data.build.capping import capped, shuffled
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.records import Removed, Selected
from autotriton.data.quality.dedupe import distinct
from autotriton.data.quality.split import HELD_OUT, REINFORCE, TEACH, side
from autotriton.data.records import Difficulty, GatheredTask, SourceKind

_FIRST = {SourceKind.HARVEST: 0, SourceKind.OPINFO: 1, SourceKind.SYNTH: 2, SourceKind.WRAPPERS: 3}
"""Of twins, the one people wrote stays."""
_HARDNESS = {Difficulty.EASY: 0, Difficulty.MEDIUM: 1, Difficulty.HARD: 2}


def select(rows: list[GatheredTask], config: BuildConfig, kept: Kept | None) -> tuple[list[Selected], list[Removed]]:
    removed: list[Removed] = []

    def drop(reason: str) -> Callable[[GatheredTask, str], None]:
        return lambda row, why: removed.append(
            Removed(row=row.task.id, stage="select", reason=f"{reason}{why}", detail=row.origin)
        )

    ordered = sorted(rows, key=lambda row: (_FIRST[row.kind], row.origin, row.task.hash))
    apart = _clean(_unique(ordered, drop("")), kept, removed)
    near = distinct(apart, lambda row: row.task.source, drop("twin text: "), config.select.near)
    few = _few_per_graph(shuffled(near, _name, config.seed), config.select.per_graph, drop(""))
    sides: dict[str, list[GatheredTask]] = {HELD_OUT: [], REINFORCE: [], TEACH: []}
    shares = {
        HELD_OUT: config.select.held_out,
        Difficulty.EASY.value: config.select.rl_easy,
        Difficulty.MEDIUM.value: config.select.rl_medium,
        Difficulty.HARD.value: config.select.rl_hard,
    }
    for row in _renamed(few):
        sides[side(row.graph, row.difficulty.value, shares, config.seed)].append(row)
    sides[REINFORCE].sort(key=lambda row: -hardness(row))
    limits = {HELD_OUT: config.finish.held_out, REINFORCE: config.finish.rl, TEACH: len(rows)}
    chosen = [
        Selected(task=row, side=name)
        for name, tasks in sides.items()
        for row in capped(tasks, _family, config.select.family_share, limits[name], drop(f"{name}: "))
    ]
    return chosen, removed


def hardness(row: GatheredTask) -> float:
    """0 easy to 1 hard: the class first, depth within it."""
    return round((_HARDNESS[row.difficulty] + min(row.depth, 16) / 16) / 3, 3)


def _unique(rows: list[GatheredTask], drop: Callable[[GatheredTask, str], None]) -> list[GatheredTask]:
    """One task of each graph with shapes: the others are the same program in other words."""
    seen: set[str] = set()
    unique: list[GatheredTask] = []
    for row in rows:
        if row.shaped_graph in seen:
            drop(row, "twin graph")
        else:
            seen.add(row.shaped_graph)
            unique.append(row)
    return unique


def _clean(rows: list[GatheredTask], kept: Kept | None, removed: list[Removed]) -> list[GatheredTask]:
    if kept is None:
        return rows
    clean: list[GatheredTask] = []
    for row in rows:
        found = kept.found.find(row.task.id, row.task.source, row.shaped_graph)
        if found is None:
            clean.append(row)
            continue
        near = f" ({found.overlap:.2f} of its words)" if found.overlap is not None else ""
        detail = f"{found.benchmark}{near}"
        removed.append(Removed(row=row.task.id, stage="select", reason=f"benchmark: {found.how}", detail=detail))
    return clean


def _few_per_graph(
    rows: list[GatheredTask], most: int, drop: Callable[[GatheredTask, str], None]
) -> list[GatheredTask]:
    seen: Counter[str] = Counter()
    few: list[GatheredTask] = []
    for row in rows:
        seen[row.graph] += 1
        if seen[row.graph] > most:
            drop(row, "its program at enough other sizes")
        else:
            few.append(row)
    return few


def _renamed(rows: list[GatheredTask]) -> list[GatheredTask]:
    """Ids are unique: two packages may have a class of the same name in a file of the same name."""
    count = Counter(row.task.id for row in rows)
    return [
        row
        if count[row.task.id] == 1
        else row.model_copy(update={"task": row.task.model_copy(update={"id": f"{row.task.id}-{row.task.hash[:6]}"})})
        for row in rows
    ]


def _name(row: GatheredTask) -> str:
    return row.task.hash


def _family(row: GatheredTask) -> str:
    return row.family
