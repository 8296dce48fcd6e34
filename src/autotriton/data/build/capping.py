"""How many of each family: no more than a share of what is kept, and no more rows than wanted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

AnyRow = TypeVar("AnyRow")


def capped(
    rows: Sequence[AnyRow],
    family: Callable[[AnyRow], str],
    share: float,
    most: int,
    dropped: Callable[[AnyRow, str], None],
) -> list[AnyRow]:
    """The first rows of every family, as many as may stay; of the others `dropped` is told why."""
    total = largest(Counter(map(family, rows)), share, most)
    limit = max(1, int(share * total)) if total < len(rows) or share < 1 else total
    if total == 0:  # so few families that no share of them can hold: all stay, and the card shows it
        total, limit = most, most
    taken: Counter[str] = Counter()
    kept: list[AnyRow] = []
    for row in rows:
        if taken[family(row)] >= limit:
            dropped(row, "over its family's share")
        elif len(kept) >= total:
            dropped(row, "more than wanted")
        else:
            taken[family(row)] += 1
            kept.append(row)
    return kept


def largest(counts: Counter[str], share: float, most: int) -> int:
    """The most rows that can be kept with no family above its share."""
    for total in range(min(most, counts.total()), 0, -1):
        limit = int(share * total)
        if sum(min(count, limit) for count in counts.values()) >= total:
            return total
    return 0


def shuffled(rows: Iterable[AnyRow], name: Callable[[AnyRow], str], seed: int) -> list[AnyRow]:
    """In an order that depends on names and seed alone, so that a row more does not move the others."""
    return sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{name(row)}".encode()).digest())
