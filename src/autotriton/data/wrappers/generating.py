"""A seed becomes a function with its answer.

Must stay true: the same seed and number give the same texts, in any process and on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from autotriton.data.records import Draft, SourceKind
from autotriton.data.wrappers import (
    bits,
    broadcast,
    channels,
    convolutions,
    division,
    fused,
    losses,
    norms,
    pointwise,
    pooling,
    products,
    reducing,
    rows,
    wording,
)
from autotriton.data.wrappers.answers import answer_text, task_text
from autotriton.data.wrappers.base import Plan
from autotriton.errors import UsageError
from autotriton.types import Task

WRAPPERS_VERSION = "3"
"""Changes whenever a seed gives another text."""
_ORIGIN = re.compile(r"autotriton-wrappers (\S+) seed (\d+) number (\d+)")
FAMILIES: dict[str, tuple[Callable[[Random], Plan], int]] = {
    "unary": (pointwise.unary, 10),
    "chained": (pointwise.chained, 16),
    "clamp": (pointwise.clamp, 3),
    "broadcast": (broadcast.broadcast, 24),
    "reduction": (rows.reduction, 18),
    "row": (rows.row_operation, 14),
    "product": (products.product, 16),
    "matrix_vector": (products.matrix_vector, 4),
    "norm": (norms.norm, 7),
    "batch_norm": (channels.batch_norm, 7),
    "group_norm": (channels.group_norm, 5),
    "loss": (losses.loss, 4),
    "pair": (losses.pair, 4),
    "embedding": (fused.embedding, 3),
    "one_hot": (fused.one_hot, 2),
    "triangle": (fused.triangle, 2),
    "gate": (fused.gate, 2),
    "linear_reduced": (fused.linear_reduced, 5),
    "position": (reducing.position, 5),
    "extreme": (reducing.extreme, 5),
    "spread": (reducing.spread, 5),
    "twice": (reducing.twice, 4),
    "predicate": (bits.predicate, 3),
    "bitwise": (bits.bitwise, 4),
    "division": (division.division, 4),
    "convolution": (convolutions.convolution, 16),
    "pool": (pooling.pool, 8),
}
"""Who draws a plan, and how often."""


@dataclass(frozen=True)
class Wrapper:
    """A task with its description and its answer."""

    seed: int
    number: int
    family: str
    plan: Plan
    task: Task
    code: str
    completion: str
    """Reasoning, then the code in a fenced block."""

    @property
    def origin(self) -> str:
        return f"autotriton-wrappers {WRAPPERS_VERSION} seed {self.seed} number {self.number}"

    def question(self, draw: Random) -> tuple[str, str]:
        """What is asked, and whether as `prose` or with the `module`."""
        return wording.question(self.plan, self.task, draw)

    def draft(self) -> Draft:
        return Draft(
            task=self.task, kind=SourceKind.WRAPPERS, origin=self.origin, licence="Apache-2.0", recipe=self.family
        )


def wrapper(seed: int, number: int = 0, *, family: str | None = None) -> Wrapper:
    """Function `number` of a seed. `family` fixes the kind; such a wrapper is not what its origin says."""
    # A string seeds Python's generator the same way everywhere; hashes of objects would not.
    draw = Random(f"autotriton-wrappers/{WRAPPERS_VERSION}/{seed}/{number}")
    names = list(FAMILIES)
    chosen = draw.choices(names, weights=[FAMILIES[name][1] for name in names])[0] if family is None else family
    plan = FAMILIES[chosen][0](draw)
    task = Task(id=f"wrappers-{seed}-{number}-{chosen}", source=task_text(plan), entry=plan.name)
    code = answer_text(plan)
    return Wrapper(seed, number, chosen, plan, task, code, wording.completion(plan, code, draw))


def drafts(seed: int, count: int) -> Iterator[Draft]:
    """`count` tasks of a seed, all with different texts."""
    seen: set[str] = set()
    number = 0
    while len(seen) < count:
        draft = wrapper(seed, number).draft()
        number += 1
        if draft.task.hash not in seen:
            seen.add(draft.task.hash)
            yield draft


def again(origin: str) -> Wrapper:
    """The wrapper a row's origin names."""
    found = _ORIGIN.fullmatch(origin)
    if found is None or found[1] != WRAPPERS_VERSION:
        raise UsageError(
            f"no wrapper can be made of {origin!r}", hint=f"this version makes wrappers of version {WRAPPERS_VERSION}"
        )
    return wrapper(int(found[2]), int(found[3]))
