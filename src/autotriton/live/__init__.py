"""Live modules: `optimize` takes a module the user already has and gives back one with a verified kernel.

See docs/live.md. `describing.py` turns the instance into a task, `search.py` finds a kernel for it, `module.py` runs
it.
"""

from __future__ import annotations

from autotriton.live.module import FallbackWarning, OptimizedModule
from autotriton.live.optimizing import optimize

__all__ = ["FallbackWarning", "OptimizedModule", "optimize"]
