"""Who writes answers to a task: the routes of a config, and which tasks each is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotriton.data.build.config import BuildConfig, LanguageModelPart
from autotriton.data.build.records import Selected
from autotriton.data.quality.split import unit
from autotriton.data.records import SourceKind
from autotriton.types import Task

TEMPLATES, INDUCTOR, WRAPPERS = "templates", "inductor", "wrappers"


def distilled(part: LanguageModelPart) -> str:
    return f"distilled:{part.model.rpartition('/')[2]}"


def own(part: LanguageModelPart) -> str:
    return f"model:{Path(part.path).name}"


def routes(task: Selected, config: BuildConfig) -> list[str]:
    """The templates always; the others by a share the task's hash decides. A wrapper comes with its answer: a compiler
    would bake its scalars in.
    """
    if task.task.kind is SourceKind.WRAPPERS:
        return [WRAPPERS]
    propose = config.propose
    shares = {
        INDUCTOR: propose.inductor_share,
        distilled(propose.distil): propose.distil.share,
        own(propose.own): propose.own.share,
    }
    chosen = [route for route, share in shares.items() if unit(f"{config.seed}:{route}:{task.key}") < share]
    return [TEMPLATES, *chosen]


def settings(part: LanguageModelPart, seed: int) -> dict[str, Any]:
    """As the language model proposers take them."""
    values: dict[str, Any] = {
        **part.model_dump(include={"samples", "turns", "temperature", "max_tokens", "timeout_s"}),
        "seed": seed,
    }
    return values | {name: Path(path) for name in ("template", "refine_template") if (path := getattr(part, name))}


def shard_of(task: Task, shards: int) -> int:
    """Which of several machines a task belongs to."""
    return int(task.hash, 16) % shards
