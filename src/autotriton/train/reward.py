"""From a verdict to a number: rule AND execution, exactly as the paper has it, and our bounded extension.

Pure. Must stay true: what the judge calls suspect earns nothing, what it could not judge is None and never zero, and no
term can make a wrong answer worth more than a correct one.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotriton.judge.cheats import kind_of
from autotriton.train.config import RewardPart
from autotriton.types import Outcome, Severity, Verdict

_BEFORE_RULES = (Outcome.NO_CODE, Outcome.REJECTED)


@dataclass(frozen=True)
class Reward:
    """What one answer earned, with its reasons."""

    value: float | None
    """None: unscored, because the judge broke. Such an answer moves nothing."""
    rule: bool | None = None
    execution: bool | None = None
    speed: float = 0.0
    share: float = 0.0


def reward(verdict: Verdict | None, wanted: RewardPart) -> Reward:
    """What the verdict is worth."""
    if verdict is None:
        return Reward(None)
    rule = follows_rules(verdict)
    execution = verdict.outcome is Outcome.CORRECT
    earned = (rule or not wanted.rule) and (execution or not wanted.execution)
    if verdict.outcome is Outcome.SUSPECT:
        earned = False
    if not earned:
        return Reward(0.0, rule, execution)
    speed, share = wanted.speed * _speed(verdict, wanted.speed_cap), wanted.share * (verdict.triton_share or 0.0)
    return Reward(1.0 + speed + share, rule, execution, speed, share)


def follows_rules(verdict: Verdict) -> bool:
    """It is a Triton program: code was there, and no rule of the judge refused it."""
    refused = any(finding.severity is Severity.ERROR for finding in verdict.findings)
    return verdict.outcome not in _BEFORE_RULES and not refused


def cheated(verdict: Verdict | None) -> bool:
    """The answer tried to be accepted without doing the work in Triton; a broken program did not."""
    return verdict is not None and kind_of(verdict) is not None


def _speed(verdict: Verdict, cap: float) -> float:
    """0 where it is not faster than eager for certain, 1 at `cap` times eager and beyond."""
    measured = verdict.speedups.get("eager")
    if measured is None:
        return 0.0
    return (min(max(measured.low, 1.0), cap) - 1.0) / (cap - 1.0)
