"""Rows out of tasks and answers. A question's wording is drawn by the row's name: it is the same every time."""

from __future__ import annotations

from random import Random
from typing import Any

from autotriton.data import wrappers
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.routes import INDUCTOR, TEMPLATES
from autotriton.data.build.selecting import hardness
from autotriton.data.pairs import wording
from autotriton.data.records import GatheredTask, SourceKind
from autotriton.data.rows import MODULE, PROSE, Example, TaskRow
from autotriton.types import Verdict

_PYTORCH = "BSD-3-Clause (PyTorch)"
"""Of kernels Inductor generated; the card carries the notice."""


def task_row(row: GatheredTask, config: BuildConfig) -> TaskRow:
    """A question without an answer: the program is given, or the description a wrapper has of itself."""
    draw = Random(f"{config.seed}:question:{row.task.hash}")
    prompt, style = wording.rewrite(row.task, draw), "module"
    if row.kind is SourceKind.WRAPPERS:
        prompt, style = wrappers.again(row.origin).question(draw)
    return TaskRow(**_about(row), id=row.task.id, prompt=prompt, style=style)


def example(
    row: GatheredTask,
    config: BuildConfig,
    *,
    name: str,
    route: str,
    code: str,
    completion: str,
    verdict: Verdict,
) -> Example:
    draw = Random(f"{config.seed}:question:{name}")
    prompt, style = _question(row, config, code, draw)
    errors = [check.max_error for check in verdict.checks if check.max_error is not None]
    about = _about(row)
    if route == INDUCTOR:
        about["licence"] += f" and {_PYTORCH}"
    return Example(
        **about,
        id=name,
        prompt=prompt,
        style=style,
        completion=completion,
        code=code,
        route=route,
        policy=verdict.policy.value,
        tier=verdict.tier.value,
        judge_version=verdict.judge_version,
        cases=len(verdict.checks),
        max_error=max(errors, default=None),
        kernels=len(verdict.kernels),
        way=config.propose.way if route == TEMPLATES else "",
    )


def _question(row: GatheredTask, config: BuildConfig, code: str, draw: Random) -> tuple[str, str]:
    if row.kind is SourceKind.WRAPPERS:
        return wrappers.again(row.origin).question(draw)
    prompt = wording.prose(row.task, draw, code) if draw.random() < config.propose.prose else None
    return (prompt, PROSE) if prompt is not None else (wording.rewrite(row.task, draw, code), MODULE)


def _about(row: GatheredTask) -> dict[str, Any]:
    origin = row.kind.value
    if row.kind is SourceKind.HARVEST:
        origin = f"harvest:{row.origin.split()[0]}"  # package and version; the task's own text names the file
    return {
        "source": row.task.source,
        "entry": row.task.entry,
        "mode": row.task.mode,
        "origin": origin,
        "licence": row.licence,
        "ops": row.ops,
        "families": row.families,
        "depth": row.depth,
        "difficulty": hardness(row),
        "graph": row.graph,
    }
