"""How a build asks the judge."""

from __future__ import annotations

from autotriton.data.build.config import BuildConfig
from autotriton.judge import JudgeOptions

_LATE_CALLS_S = 0.1
"""Where a compiler wrote everything: it has no ways to change after a few calls, and Triton's interpreter is slow."""


def options(config: BuildConfig, device: str = "auto") -> JudgeOptions:
    """Tasks were admitted when they were gathered: not again for every answer. Seeds stay the judge's secret."""
    verify = config.verify
    foreign = config.propose.distil.share > 0 or config.propose.own.share > 0
    return JudgeOptions(
        policy=verify.policy,
        tier=verify.tier,
        device=device,
        cases=verify.cases,
        late_calls_s=JudgeOptions.late_calls_s if foreign else _LATE_CALLS_S,
        interpret_first=foreign,
        timeout_s=verify.timeout_s,
        targets=verify.targets,
        admit=False,
        allow_degenerate=True,
    )
