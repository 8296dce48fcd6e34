"""Modules built on fake tensors: what `torch.nn.Module` cannot do with them.

Runs in the capturing child process only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

_Convert = Callable[[Tensor], Tensor]


@contextmanager
def convertible_modules() -> Iterator[None]:
    """`self.half()` and `self.to(torch.bfloat16)` while a model is built: torch exchanges the memory of a parameter
    with that of its converted form, which it refuses for fake ones. Here each becomes a new parameter instead; those
    that were shared stay shared.
    """
    original: Any = nn.Module._apply
    made: dict[tuple[int, int], tuple[_Convert, Tensor, nn.Parameter]] = {}

    def converted(function: _Convert, parameter: nn.Parameter) -> nn.Parameter:
        key = id(function), id(parameter)
        if key not in made:  # both are held, so that their numbers are not given to others
            with torch.no_grad():
                new = nn.Parameter(function(parameter), parameter.requires_grad)
            made[key] = function, parameter, new
        return made[key][2]

    def apply(self: nn.Module, fn: _Convert, recurse: bool = True) -> Any:
        if not any(isinstance(parameter, FakeTensor) for parameter in self._parameters.values()):
            return original(self, fn, recurse)
        for child in self.children() if recurse else ():
            child._apply(fn)  # type: ignore[no-untyped-call]
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = converted(fn, parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    with mock.patch.object(nn.Module, "_apply", apply):
        yield
