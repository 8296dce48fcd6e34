"""The operator table: one entry per operator with its signature and shape rule, domain, spellings and family."""

from __future__ import annotations

from autotriton.data.synth.ops import (
    attention,
    binary,
    convolution,
    indexing,
    integers,
    losses,
    matmul,
    norms,
    pointwise,
    pooling,
    recurrent,
    reductions,
    scans,
    views,
)
from autotriton.data.synth.values import Op

_PARTS = (
    pointwise,
    binary,
    integers,
    reductions,
    norms,
    matmul,
    convolution,
    pooling,
    scans,
    losses,
    attention,
    indexing,
    views,
    recurrent,
)
TABLE: dict[str, Op] = {op.name: op for part in _PARTS for op in part.OPS}


def names(*families: str, rarity: int = 3) -> tuple[str, ...]:
    """Operators of some families, in the table's order."""
    return tuple(op.name for op in TABLE.values() if op.family in families and op.rarity <= rarity)
