"""The one place where a live module meets the loop: a verified candidate for its task, and what else it is good for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from autotriton.errors import AutoTritonError, PrerequisiteError, ProposerError
from autotriton.judge import Judge, JudgeOptions
from autotriton.live.describing import Described, takes
from autotriton.loop import Budget, Doing, OptimizeOptions, Progress, Result, optimize
from autotriton.loop.court import JudgeCourt
from autotriton.propose.base import Proposer
from autotriton.propose.proposers import parse
from autotriton.types import Attempt, Tier

Sizes = dict[str, tuple[int, int | None]]
_EXTRA = 3
"""Added to a leading size to get another one: odd where sizes are even, so that masks are needed."""
_LARGE = 1 << 20
"""Input elements from which another size is a smaller one: the interpreter takes its time."""
_CASES = 3
"""Cases another size is tried on; the example's size has passed all of them."""


@dataclass(frozen=True)
class Found:
    winner: Attempt
    ranges: Sizes
    """Leading sizes the winner was verified for, by symbol; empty where only the example's."""


def find(
    module: nn.Module,
    described: Described,
    proposers: Sequence[str | Proposer],
    judge: JudgeOptions,
    *,
    budget: Budget | None,
    tune_s: float,
    progress: Progress | None,
) -> Found:
    """The best verified kernel. Raises what kept it from being found."""
    tell = progress or (lambda _: None)
    made = [parse(proposer) if isinstance(proposer, str) else proposer for proposer in proposers]
    options = OptimizeOptions(judge, budget, tune_s)
    with JudgeCourt(judge) as court:
        result, sizes = _optimized(described, made, options, court, tell)
        if result.winner is None:
            raise _nothing(result)
        quick = Judge(_quick(judge), processes=court._processes)  # the court's: starting others takes seconds
        ranges = _ranges(module, described, sizes, result.winner, quick, tell)
    if not ranges and sizes != described.leading_sizes:
        raise ProposerError(
            f"{result.task.id} is too large for Triton's interpreter, and a smaller one's kernel is only for that size",
            hint="optimize it on a machine with a GPU, or with smaller example inputs",
        )
    return Found(result.winner, ranges)


def _optimized(
    described: Described, proposers: Sequence[Proposer], options: OptimizeOptions, court: JudgeCourt, tell: Progress
) -> tuple[Result, dict[str, int]]:
    """What the loop found, and the leading sizes it was found for: smaller ones where the interpreter needs that."""
    sizes = described.leading_sizes
    try:
        return optimize(described.task, proposers, options, progress=tell, court=court), sizes
    except PrerequisiteError:
        smaller = _smaller(described)
        if smaller == sizes:
            raise
        return optimize(described.task_with(smaller), proposers, options, progress=tell, court=court), smaller


def _nothing(result: Result) -> AutoTritonError:
    last = next((a.verdict for a in reversed(result.attempts) if a.verdict is not None), None)
    why = f"{last.outcome}: {last.message}" if last is not None else "nothing could be judged"
    count = len(result.attempts)
    return ProposerError(f"no kernel for {result.task.id} was accepted ({count} tried; the last one was {why})")


def _smaller(described: Described) -> dict[str, int]:
    """Leading sizes at which inputs and results have few enough elements for the interpreter."""
    elements = sum(tensor.numel() for tensor in (*described.tensors, *described.seen.results))
    free = described.free
    return {
        symbol: min(size, max(2, free[symbol][0], size * _LARGE // max(elements, 1)))
        for symbol, size in described.leading_sizes.items()
        if symbol in free
    } or described.leading_sizes


def _ranges(
    module: nn.Module, described: Described, example: dict[str, int], winner: Attempt, judge: Judge, tell: Progress
) -> Sizes:
    """Leading sizes the kernel takes: verified by the judge with another size, and with a single element."""
    free = described.free
    if not free:
        return {}
    large = sum(tensor.numel() for tensor in described.tensors) > _LARGE
    other = {symbol: _another(example[symbol], *bounds, large=large) for symbol, bounds in free.items()}
    tell(Doing(winner.candidate.proposer, 0, "judging", f"leading size {', '.join(map(str, other.values()))}"))
    if other == example or not takes(module, described, other) or not _accepted(judge, described, winner, other):
        return {}
    tell(Doing(winner.candidate.proposer, 0, "judging", "leading size 1"))
    one = dict.fromkeys(free, 1)
    low = 1 if takes(module, described, one) and _accepted(judge, described, winner, one) else 2
    return {symbol: (low if least <= 2 else least, most) for symbol, (least, most) in free.items()}


def _another(size: int, low: int, high: int | None, *, large: bool) -> int:
    bigger = size + _EXTRA
    fits = not large and (high is None or bigger <= high)
    return bigger if fits else max(low, 2, size - 1)


def _quick(options: JudgeOptions) -> JudgeOptions:
    """Values in fewer cases, and nothing about the task or about registers, which are known already."""
    on_gpu = options.device != "cpu" and torch.cuda.is_available()
    return replace(options, tier=Tier.RUN if on_gpu else Tier.INTERPRET, cases=_CASES, admit=False)


def _accepted(judge: Judge, described: Described, winner: Attempt, sizes: dict[str, int]) -> bool:
    try:
        return judge.judge(described.task_with(sizes), winner.candidate.code).accepted
    except AutoTritonError:  # a size that cannot be judged
        return False
