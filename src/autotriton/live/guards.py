"""The tensors a kernel was verified for, and why others are not that.

Must stay true: tensors that differ in anything the trace took for granted are refused with a reason: types, shapes,
strides, devices; so are surroundings that change what the module computes, such as autocast and function transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.live import layouts
from autotriton.live.state import Place


@dataclass(frozen=True)
class Reason:
    """Why the original has to run. One of a kind is told once."""

    kind: str
    text: str


@dataclass(frozen=True)
class TensorKind:
    """A tensor the kernel may be given."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    symbol: str | None = None
    """Of its leading size, where the kernel was verified for other sizes too."""

    @staticmethod
    def of(name: str, tensor: Tensor, symbol: str | None = None) -> TensorKind:
        return TensorKind(name, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), symbol)

    def refuse(self, tensor: Any, sizes: dict[str, int]) -> Reason | None:
        if type(tensor) not in (Tensor, nn.Parameter):
            return Reason(f"{self.name} type", f"{self.name} is a {type(tensor).__name__}")
        if tensor.dtype is not self.dtype:
            return Reason(f"{self.name} dtype", f"{self.name} is {tensor.dtype}, and the kernel is for {self.dtype}")
        if tensor.shape == self.shape:
            if self.symbol is not None and sizes.setdefault(self.symbol, self.shape[0]) != self.shape[0]:
                return self._other(tensor)
            return None if layouts.same(self.shape, tensor.stride(), self.stride) else self._strides(tensor)
        return self._refuse_size(tensor, sizes)

    def _refuse_size(self, tensor: Tensor, sizes: dict[str, int]) -> Reason | None:
        if self.symbol is None or tensor.dim() != len(self.shape) or tensor.shape[1:] != self.shape[1:]:
            return self._other(tensor)
        leading = tensor.shape[0]
        if leading == 0 or sizes.setdefault(self.symbol, leading) != leading:
            return self._other(tensor)
        wanted = layouts.resized(self.shape, self.stride, leading)
        if wanted is None or not layouts.same(tensor.shape, tensor.stride(), wanted):
            return self._strides(tensor)
        return None

    def _other(self, tensor: Tensor) -> Reason:
        shape = ("*", *self.shape[1:]) if self.symbol is not None else self.shape
        wanted = f"({', '.join(map(str, shape))})"
        return Reason(f"{self.name} shape", f"{self.name} is {tuple(tensor.shape)}, and the kernel is for {wanted}")

    def _strides(self, tensor: Tensor) -> Reason:
        text = f"{self.name} has strides {tensor.stride()}, and the kernel is for tensors laid out as {self.stride}"
        return Reason(f"{self.name} strides", text)


def refuse_sizes(sizes: dict[str, int], ranges: dict[str, tuple[int, int | None]]) -> Reason | None:
    """Leading sizes outside what the module's own code allows or the kernel was verified for."""
    for symbol, size in sizes.items():
        low, high = ranges.get(symbol, (1, None))
        if size < low or (high is not None and size > high):
            return Reason("leading size", f"the leading size {size} is outside {low} to {high or 'any'}")
    return None


def refuse_context() -> Reason | None:
    """Surroundings in which a kernel would not do what the module does."""
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        return Reason("autocast", "autocast is on")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return Reason("transform", "a function transform such as vmap is active")
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return Reason("mode", "a torch dispatch or function mode is active")
    return None


def refuse_state(kinds: Sequence[TensorKind], places: Sequence[Place], device: torch.device) -> Reason | None:
    for kind, place in zip(kinds, places, strict=True):
        tensor = place.held.get(place.key)
        if tensor is None:
            return Reason(f"{kind.name} gone", f"{kind.name} is gone from the module")
        reason = kind.refuse(tensor, {})
        if reason is not None:
            return reason
        if tensor.device != device:
            return Reason("device", f"{kind.name} is on {tensor.device} and the inputs are on {device}")
    return None


def refuse_untied(ties: Sequence[tuple[Place, Place]]) -> Reason | None:
    """The graph reads a shared tensor under one of its names; it has to be shared still."""
    for one, other in ties:
        if one.tensor is not other.tensor:
            return Reason("ties", f"{one.name} and {other.name} are no longer one tensor")
    return None
