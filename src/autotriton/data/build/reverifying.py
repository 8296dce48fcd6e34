"""Random rows before the judge once more, with seeds nobody has seen: does the data set hold what it says?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

from autotriton.data.build import tables
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.rows import Example
from autotriton.judge import JudgeOptions
from autotriton.judge.pool import judge_many
from autotriton.types import Policy, Tier


@dataclass
class Again:
    """What became of the rows."""

    rows: int
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    """Row -> what the judge said."""

    @property
    def held(self) -> bool:
        return not self.failed


def reverify(
    folder: Path,
    count: int,
    *,
    seed: int | None = None,
    device: str = "auto",
    tier: Tier | None = None,
    workers: int | None = None,
    watch: Watcher = lambda _: None,
) -> Again:
    """`seed` chooses the rows; inputs and weights are the judge's own secret every time. Admission included."""
    rows = tables.read(tables.place_of(folder), "sft", Example)
    draw: Random = Random(seed) if seed is not None else SystemRandom()
    chosen = draw.sample(rows, min(count, len(rows)))
    options = JudgeOptions(policy=Policy.STRICT, tier=tier, device=device, targets=("sm_90",))
    found, progress = Again(len(chosen)), Progress("verify", total=len(chosen))
    for judgement in judge_many([(row.task(), row.code) for row in chosen], options, workers=workers):
        verdict = judgement.verdict
        outcome = "unjudged" if verdict is None else verdict.outcome.value
        found.outcomes[outcome] += 1
        if verdict is None or not verdict.accepted:
            said = judgement.error or "" if verdict is None else verdict.message
            found.failed[chosen[judgement.index].id] = f"{outcome}: {said}"
        progress.done += 1
        progress.counts[outcome] += 1
        watch(progress)
    found.seconds = progress.seconds
    return found
