"""How to judge: one frozen record, the same for the CLI, Python and the pool."""

from __future__ import annotations

from dataclasses import dataclass

from autotriton.types import Policy, Tier

JUDGE_VERSION = "1.8"
"""Changes whenever a verdict could change."""
DEFAULT_TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


@dataclass(frozen=True)
class JudgeOptions:
    """Defaults are what a person wants who asks whether a kernel can be trusted."""

    policy: Policy = Policy.STRICT
    tier: Tier | None = None
    """How far to go; None: correctness (`run`) on whatever this machine has."""
    device: str = "auto"
    """auto, cpu (Triton's interpreter) or cuda."""
    allow_degenerate: bool = False
    """Judge tasks that admission refuses, and mark the verdict."""
    sandbox: str = "auto"
    targets: tuple[str, ...] = DEFAULT_TARGETS
    """Architectures to cross-compile for where no GPU runs the kernels."""
    baselines: tuple[str, ...] = ("eager", "compile")
    seed: int | None = None
    """Fixes the secret seed; for reproducing a verdict, never for training or scoring."""
    timeout_s: float = 120.0
    """Wall time one candidate's process may take."""
    cases: int = 8
    late_calls_s: float = 2.0
    """Seconds of further calls that find out whether a candidate changes its ways after a few."""
    interpret_first: bool = True
    """On a GPU, small tasks pass through Triton's interpreter too, which checks the bounds of every access. Not worth
    its time where nearly every candidate is correct and none is hostile.
    """
    admit: bool = True
    repetitions: int = 3
    """Fresh candidate processes per timing; a published claim needs at least three."""
    timing_s: float = 1.5
    """Seconds of timed blocks per repetition."""
    mixed_share: float = 0.5
    """Least Triton share of the work under the mixed policy."""
    trust_candidate: bool = False
    """Test-only: skip rules, blocking and the work test, to time a reference against itself."""
