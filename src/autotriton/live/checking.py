"""Runs of the user's module that leave no trace, and comparisons with them.

The judge decides whether a kernel is right; what is compared here is whether the task is the module, and whether the
kernel agrees with the module under the module's own weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from autotriton.live import layouts
from autotriton.live.calls import CallSpec, results_of
from autotriton.live.state import places

Run = Callable[..., Sequence[Tensor]]
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 6e-2}
"""Of the largest value. Wide: two correct ways to compute differ in rounding, two different modules in everything."""


@dataclass(frozen=True)
class Seen:
    """What one run did."""

    results: tuple[Tensor, ...]
    changed_inputs: tuple[int, ...]
    changed_state: tuple[str, ...]
    aliases: bool
    """A result shares memory with an input or with the module's state."""


def original_run(module: nn.Module, call: CallSpec) -> Run:
    def run(*tensors: Tensor) -> list[Tensor]:
        args, kwargs = call.rebuild(tensors)
        with torch.no_grad():
            return results_of(module(*args, **kwargs), type(module).__name__)[1]

    return run


def observe(run: Run, module: nn.Module, tensors: Sequence[Tensor]) -> Seen:
    """One run on copies of the inputs; the module's state is put back afterwards."""
    given = [copy(tensor) for tensor in tensors]
    with preserved(module) as before:
        results = tuple(run(*given))
        held = {name: place.tensor for name, place in places(module).items()}
        changed = tuple(name for name, tensor in held.items() if name in before and not same(tensor, before[name]))
        owned = {tensor.untyped_storage()._cdata for tensor in (*given, *held.values())}
        aliases = any(result.untyped_storage()._cdata in owned for result in results)
        results = tuple(result.detach().clone() for result in results)
    inputs = tuple(index for index, (a, b) in enumerate(zip(given, tensors, strict=True)) if not same(a, b))
    return Seen(results, inputs, changed, aliases)


@contextmanager
def preserved(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Puts the values of buffers and tensor attributes back, and the generators of random numbers. Gives the values."""
    parameters = {id(parameter) for parameter in module.parameters()}
    held = {name: place.tensor for name, place in places(module).items() if id(place.tensor) not in parameters}
    before = {name: tensor.detach().clone() for name, tensor in held.items()}
    try:
        with private_rng():
            yield before
    finally:
        with torch.no_grad():
            for name, tensor in held.items():
                if not same(tensor, before[name]):
                    tensor.copy_(before[name])


def private_rng() -> AbstractContextManager[None]:
    """What is drawn inside changes nothing outside, on the devices in use."""
    used = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.random.fork_rng([torch.cuda.current_device()] if used else [])


def copy(tensor: Tensor) -> Tensor:
    """A copy with the same strides, also of a slice or an expanded tensor."""
    detached = tensor.detach()
    span = layouts.span(tensor.shape, tensor.stride())
    if span == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return torch.as_strided(detached, (span,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def same(one: Tensor, other: Tensor) -> bool:
    """Equal values; NaN is equal to NaN."""
    if one.dtype.is_floating_point or one.dtype.is_complex:
        return bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))) and bool(
            torch.equal(one.isnan(), other.isnan())
        )
    return bool(torch.equal(one, other))


def difference(got: Sequence[Tensor], expected: Sequence[Tensor]) -> str | None:
    """What is different, in a few words; None when two sets of results agree."""
    if len(got) != len(expected):
        return f"{len(got)} results where there should be {len(expected)}"
    for index, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"result {index} is {one.dtype} {tuple(one.shape)}, not {other.dtype} {tuple(other.shape)}"
        if not _close(one, other):
            return f"result {index} has other values"
    return None


def finite(results: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(result).all()) for result in results if result.dtype.is_floating_point)


def _close(one: Tensor, other: Tensor) -> bool:
    if not one.dtype.is_floating_point:
        return same(one, other)
    if not torch.equal(one.isfinite(), other.isfinite()):
        return False
    mask = other.isfinite()
    a, b = one[mask].double(), other[mask].double()
    allowed = _RELATIVE.get(one.dtype, 0.2) * max(float(b.abs().max()) if b.numel() else 0.0, 1e-30)
    return bool(((a - b).abs() <= allowed).all())
