"""`autotriton.optimize(module, example_inputs)`: a drop-in replacement whose kernel the judge has accepted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from autotriton.errors import AutoTritonError, ProposerError, UsageError
from autotriton.judge import JudgeOptions
from autotriton.live.calls import describe_call, example_call
from autotriton.live.checking import difference, observe
from autotriton.live.connections import differentiable
from autotriton.live.describing import Described, describe
from autotriton.live.guards import TensorKind
from autotriton.live.module import FallbackWarning, OptimizedModule
from autotriton.live.record import Optimized
from autotriton.live.runtime import load_kernel, refuse_device
from autotriton.live.search import Found, find
from autotriton.live.state import places, ties
from autotriton.live.watching import structure
from autotriton.loop import Budget, Progress, parse_budget
from autotriton.propose.base import Proposer
from autotriton.types import Policy

_CAREFUL = ("compiler", "files")
"""Proposers that do not guess: a task that accepts too much is no danger with them."""


def optimize(
    module: nn.Module,
    example_inputs: Any,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    proposers: Sequence[str | Proposer] = ("compiler",),
    budget: int | str | Budget | None = None,
    tune_s: float = 60.0,
    policy: Policy | str = Policy.STRICT,
    judge: JudgeOptions | None = None,
    tf32: bool | None = None,
    allow_degenerate: bool | None = None,
    on_failure: str = "raise",
    progress: Progress | None = None,
) -> OptimizedModule:
    """A stand-in for the module with a verified Triton kernel. The module itself is not changed.

    `example_inputs` is what the module is called with: a tensor, a tuple or list of arguments, or a dict of keyword
    arguments. `tf32` permits TF32 matmuls; by default as torch is set. With `on_failure="fallback"` a module that
    cannot be optimized comes back wrapped, with a warning instead of an error.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"optimize needs an nn.Module, not a {type(module).__name__}", hint="wrap a function in one")
    if on_failure not in ("raise", "fallback"):
        raise UsageError(f"on_failure is 'raise' or 'fallback', not {on_failure!r}")
    if isinstance(module, OptimizedModule):
        module = module.original
    options = _judge_options(judge, policy, allow_degenerate, proposers)
    try:
        described = _described(module, example_inputs, example_kwargs, tf32)
        found = find(module, described, proposers, options, budget=_budget(budget), tune_s=tune_s, progress=progress)
        return _checked(OptimizedModule(module, _record(module, described, found)), described)
    except AutoTritonError as error:
        if on_failure == "raise":
            raise
        warnings.warn(f"{type(module).__name__} was not optimized: {error}", FallbackWarning, stacklevel=2)
        return OptimizedModule(module, None)


def _described(module: nn.Module, given: Any, kwargs: Mapping[str, Any] | None, tf32: bool | None) -> Described:
    call, tensors = describe_call(module, *example_call(module, given, kwargs))
    permitted = torch.get_float32_matmul_precision() != "highest" if tf32 is None else tf32
    return describe(module, call, tensors, tf32=permitted)


def _judge_options(
    judge: JudgeOptions | None, policy: Policy | str, allow: bool | None, proposers: Sequence[str | Proposer]
) -> JudgeOptions:
    if policy not in list(Policy):
        raise UsageError(f"unknown policy {str(policy)!r}", hint=f"known: {', '.join(Policy)}")
    if judge is not None:
        return judge
    if allow is None:
        names = [proposer if isinstance(proposer, str) else "" for proposer in proposers]
        allow = all(name.partition(":")[0] in _CAREFUL for name in names)
    return JudgeOptions(policy=Policy(policy), allow_degenerate=allow)


def _budget(given: int | str | Budget | None) -> Budget | None:
    if isinstance(given, str):
        return parse_budget(given)
    return Budget(candidates=given) if isinstance(given, int) else given


def _record(module: nn.Module, described: Described, found: Found) -> Optimized:
    captured, call, seen = described.captured, described.call, described.seen
    symbols = [symbol if symbol in found.ranges else None for symbol in captured.leading]
    candidate, verdict = found.winner.candidate, found.winner.verdict
    assert verdict is not None
    state = {**{name: place.tensor for name, place in places(module).items()}, **described.written.constants}
    buffers = {name for name, _ in module.named_buffers()}
    changing = tuple(name for name in seen.changed_state if name in buffers)
    return Optimized(
        task=found.winner.task,
        candidate=candidate,
        verdict=verdict,
        call=call,
        outline=captured.outline,
        inputs=tuple(map(TensorKind.of, call.names, described.tensors, symbols)),
        state=tuple(TensorKind.of(name, tensor) for name, tensor in state.items()),
        ties=ties(module),
        structure=structure(module, mode_matters=described.mode_matters),
        ranges=found.ranges,
        constants=described.written.constants,
        differentiable=differentiable(captured.program),
        changing=changing,
        in_place=seen.aliases
        or bool(seen.changed_inputs)
        or len(changing) < len(_distinct(module, seen.changed_state)),
    )


def _distinct(module: nn.Module, names: tuple[str, ...]) -> set[int]:
    held = places(module)
    return {id(held[name].tensor) for name in names}


def _checked(made: OptimizedModule, described: Described) -> OptimizedModule:
    """Where kernels run on the module's device, the kernel also agrees with the module under its own weights."""
    tensors, optimized = described.tensors, made.optimized
    assert optimized is not None
    if refuse_device(tensors[0].device) is not None:
        return made
    try:
        kernel = load_kernel(optimized, made.original, dict(optimized.constants), tensors[0].device)
        problem = difference(observe(kernel, made.original, tensors).results, described.seen.results)
    except Exception as error:  # the kernel file is foreign code
        text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ProposerError(f"the accepted kernel fails with {optimized.title}'s own weights: {text}") from error
    if problem:
        raise ProposerError(f"the accepted kernel disagrees with {optimized.title} under its own weights: {problem}")
    return made
