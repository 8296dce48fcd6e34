"""The loop: propose, judge, refine, tune. See docs/optimize.md.

`optimize` is the whole of it; the other names are what it takes and gives back.
"""

from __future__ import annotations

from autotriton.loop.budget import Budget, parse_budget
from autotriton.loop.loop import OptimizeOptions, Result, optimize
from autotriton.loop.progress import Doing, Event, Failed, Judged, Progress
from autotriton.loop.ranking import best

__all__ = [
    "Budget",
    "Doing",
    "Event",
    "Failed",
    "Judged",
    "OptimizeOptions",
    "Progress",
    "Result",
    "best",
    "optimize",
    "parse_budget",
]
