"""The judge: decides whether a Triton program really does a PyTorch program's work. See docs/judging.md."""

from __future__ import annotations

from autotriton.judge.judge import Judge, judge
from autotriton.judge.options import JUDGE_VERSION, JudgeOptions
from autotriton.judge.pool import Judgement, judge_many

__all__ = ["JUDGE_VERSION", "Judge", "JudgeOptions", "Judgement", "judge", "judge_many"]
