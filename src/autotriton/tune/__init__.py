"""Tuning: tile sizes, warps, stages and a template's own choices, measured on this GPU. See docs/tuning.md."""

from autotriton.tune.cache import TileCache
from autotriton.tune.race import race
from autotriton.tune.tuner import tune

__all__ = ["TileCache", "race", "tune"]
