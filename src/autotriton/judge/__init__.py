"""The judge: decides whether a Triton program really does a PyTorch program's work. See docs/judging.md.

The package can be called: `autotriton.judge(task, code)` is the verb, `autotriton.judge.Judge` the thing behind it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from autotriton.judge.judge import Judge, judge
from autotriton.judge.options import JUDGE_VERSION, JudgeOptions
from autotriton.judge.pool import Judgement, judge_many
from autotriton.types import Verdict

__all__ = ["JUDGE_VERSION", "Judge", "JudgeOptions", "Judgement", "judge", "judge_many"]


class _Callable(ModuleType):
    """One noun, one word: the package and the function share their name, whichever of the two an import found first."""

    def __call__(self, *args: Any, **kwargs: Any) -> Verdict:
        return judge(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
