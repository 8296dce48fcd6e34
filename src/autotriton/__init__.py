"""AutoTriton: a PyTorch program goes in, a Triton program that provably does the same work faster comes out.

Everything here loads on first use, so that importing the package costs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from autotriton.export import export_package
    from autotriton.judge import JudgeOptions, judge, judge_many
    from autotriton.live import OptimizedModule, optimize
    from autotriton.tasks.source import load as load_task
    from autotriton.types import Attempt, Candidate, Mode, Outcome, Policy, Task, Tier, Verdict

# name: (module it lives in, its name there)
_EXPORTS = {
    "judge": ("autotriton.judge", "judge"),
    "judge_many": ("autotriton.judge", "judge_many"),
    "JudgeOptions": ("autotriton.judge", "JudgeOptions"),
    "load_task": ("autotriton.tasks.source", "load"),
    "optimize": ("autotriton.live", "optimize"),
    "OptimizedModule": ("autotriton.live", "OptimizedModule"),
    "export_package": ("autotriton.export", "export_package"),
    **{
        name: ("autotriton.types", name)
        for name in ("Attempt", "Candidate", "Mode", "Outcome", "Policy", "Task", "Tier", "Verdict")
    },
}

__all__ = [
    "Attempt",
    "Candidate",
    "JudgeOptions",
    "Mode",
    "OptimizedModule",
    "Outcome",
    "Policy",
    "Task",
    "Tier",
    "Verdict",
    "__version__",
    "export_package",
    "judge",
    "judge_many",
    "load_task",
    "optimize",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _EXPORTS[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
