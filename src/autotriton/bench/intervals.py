"""Small exact statistics: intervals for shares and means, unbiased pass@k, paired tests. No dependencies, seeded.

Must stay true: the same numbers in give the same interval out, on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""The normal quantile of a two-sided 95% interval."""
RESAMPLES = 2000
_SEED = 20240229


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def wilson(hits: float, of: int, z: float = Z_95) -> Interval:
    """Wilson's score interval for a share. `hits` may be fractional: a task solved in 3 of 10 samples counts 0.3.

    A mean of fractions varies no more than a mean of zeros and ones, so the interval is then wide enough.
    """
    if of == 0:
        return Interval(0.0, 1.0)
    share, square = hits / of, z * z
    centre = (share + square / (2 * of)) / (1 + square / of)
    half = z / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    low = 0.0 if hits == 0 else max(0.0, centre - half)  # exactly, whatever the rounding
    high = 1.0 if hits == of else min(1.0, centre + half)
    return Interval(low, high)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Chance that at least one of k samples, drawn without replacement, is correct: 1 - C(n - c, k) / C(n, k)."""
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} is not defined for {correct} of {samples}")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def bootstrap_mean(values: Sequence[float], *, resamples: int = RESAMPLES, level: float = 0.95) -> Interval:
    """Percentile bootstrap over the values, which are drawn with replacement."""
    generator = random.Random(_SEED)
    means = sorted(math.fsum(generator.choices(values, k=len(values))) / len(values) for _ in range(resamples))
    tail = (1 - level) / 2
    return Interval(quantile(means, tail), quantile(means, 1 - tail))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact binomial test of wins against losses (McNemar's exact test where they are discordant pairs)."""
    of = wins + losses
    tail = sum(math.comb(of, count) for count in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / (1 << of))  # of whole numbers: floats end at 2**1024


def sign_flip_test(differences: Sequence[float], *, resamples: int = 10_000) -> float:
    """Two-sided paired permutation test of mean zero: every sign is as likely as its opposite.

    Exact up to 12 non-zero differences, by seeded resampling above.
    """
    moved = [difference for difference in differences if difference != 0.0]
    if not moved:
        return 1.0
    seen = abs(math.fsum(moved)) * (1 - 1e-12)
    if len(moved) <= 12:
        flips = [
            abs(math.fsum(-value if mask >> place & 1 else value for place, value in enumerate(moved)))
            for mask in range(2 ** len(moved))
        ]
        return sum(flip >= seen for flip in flips) / len(flips)
    generator = random.Random(_SEED)
    beyond = sum(_flipped(moved, generator) >= seen for _ in range(resamples))
    return (beyond + 1) / (resamples + 1)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the closest ranks of sorted values."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _flipped(values: Sequence[float], generator: random.Random) -> float:
    bits = generator.getrandbits(len(values))
    return abs(math.fsum(-value if bits >> place & 1 else value for place, value in enumerate(values)))
