"""How a build asks the judge."""

from __future__ import annotations

from autotriton.data.build.config import BuildConfig
from autotriton.judge import JudgeOptions


def options(config: BuildConfig, device: str = "auto") -> JudgeOptions:
    """Tasks were admitted when they were gathered: not again for every answer. Seeds stay the judge's secret."""
    verify = config.verify
    return JudgeOptions(
        policy=verify.policy,
        tier=verify.tier,
        device=device,
        cases=verify.cases,
        timeout_s=verify.timeout_s,
        targets=verify.targets,
        admit=False,
        allow_degenerate=True,
    )
