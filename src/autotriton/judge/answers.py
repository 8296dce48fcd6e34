"""What a candidate must reproduce: one record per leaf, and all of them for one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from autotriton.judge.measure import UNMEASURED, Spread
from autotriton.judge.program import Leaf


@dataclass(frozen=True)
class Tie:
    """The values an arg-reduction chose among, so that another index to an equal value is right too."""

    table: Tensor
    index: Tensor
    dim: int
    distinct: bool
    """The indices of one line must all differ (sort, topk)."""
    slack: float = 0.0
    """0 where the values are the inputs themselves; their rounding error where they were computed."""


@dataclass(frozen=True)
class Answer:
    """One leaf a candidate must reproduce, with everything needed to compare it."""

    name: str
    value: Leaf
    oracle: Tensor | None = None
    """fp64; None for integers, bools, strings and None."""
    unit: float = 0.0
    """Unit roundoff of the coarsest precision the reference itself computes in."""
    length: int = 1
    """Longest accumulation of the reference, at most `LONGEST`."""
    size: Spread = UNMEASURED
    error: Spread = UNMEASURED
    """The reference's own distance from the oracle."""
    change: Spread = UNMEASURED
    """How far the oracle moves when inputs and parameters move by one unit roundoff."""
    steps: Spread = UNMEASURED
    """How far it moves when the result of every operator is rounded: the reference's error at no lucky draw."""
    tie: Tie | None = None
    aliases: tuple[int, ...] = ()
    """Input leaves this output shares memory with in the reference."""
    state_aliases: tuple[str, ...] = ()
    """Parameters and buffers this output shares memory with in the reference."""
    layouts: tuple[tuple[int, ...], ...] = ()
    """Strides that are as right as the reference's, where a backend chose those."""


@dataclass(frozen=True)
class Expected:
    """Everything one case expects of a candidate."""

    outputs: tuple[Answer, ...]
    structure: Any
    state: dict[str, Answer] = field(default_factory=dict)
    """Parameters and buffers after forward, only those that changed."""
    inputs: dict[int, Answer] = field(default_factory=dict)
    """Input leaves after forward, only those the reference itself changes in place."""
    ops: dict[str, int] = field(default_factory=dict)
    in_domain: bool = True
    """False for inputs the task's own `get_inputs` would not make: elements the reference finds NaN are not judged."""
    random: bool = False
    notes: tuple[str, ...] = ()
    later: Callable[[], Expected] | None = None
    """The same with `change` and `steps` measured; None where they are. They only ever allow more, and take most of the
    time: whoever passes without them need not wait for them.
    """
