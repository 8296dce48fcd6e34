"""The calls a model makes to its wrappers, kept so that each wrapper can be tried and timed by itself.

One call is kept per distinct signature (shapes, dtypes, strides, alignment, plain values) and counted. Arguments are
kept, not copied; those a wrapper writes into are found by a checksum around the call, copied then, and put back before
every call whose result is looked at.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

_AS_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ALIGNMENT = 16
"""Bytes: Triton compiles other code for pointers that are not multiples of this."""


@dataclass
class Call:
    """One kind of call of one wrapper."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int = 0
    written: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Arguments the wrapper writes into, each with the content it is given."""

    def __call__(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def restore(self) -> None:
        for tensor, content in self.written:
            tensor.copy_(content)

    def answer(self) -> list[Any]:
        """What one call returns and what it leaves in its arguments."""
        self.restore()
        result = self()
        return [*pytree.tree_leaves(result), *(tensor for tensor, _ in self.written)]


Calls = dict[str, dict[str, Call]]
"""By wrapper, then by signature."""


@contextmanager
def recorded(module: ModuleType, names: Sequence[str]) -> Iterator[Calls]:
    """While open, calls of these functions of the module are kept."""
    calls: Calls = {name: {} for name in names}
    originals = {name: getattr(module, name) for name in names}
    for name, original in originals.items():
        setattr(module, name, _recorder(original, calls[name]))
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


def _recorder(original: Callable[..., Any], kept: dict[str, Call]) -> Callable[..., Any]:
    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> Any:
        key = signature(args, kwargs)
        call = kept.get(key)
        if call is not None:
            call.count += 1
            return original(*args, **kwargs)
        call = kept[key] = Call(original, args, kwargs, count=1)
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        before = [checksum(tensor) for tensor in tensors]
        result = original(*args, **kwargs)
        changed = [one for one, old in zip(tensors, before, strict=True) if checksum(one) != old]
        call.written = [(tensor, tensor.clone()) for tensor in changed]
        return result

    return record


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a wrapper's speed may depend on, as text."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    return json.dumps([str(structure), *map(_describe, leaves)])


def _describe(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        aligned = leaf.data_ptr() % _ALIGNMENT == 0
        return [str(leaf.dtype), list(leaf.shape), list(leaf.stride()), aligned]
    return leaf if isinstance(leaf, bool | int | float | str | None) else type(leaf).__name__


def checksum(tensor: Tensor) -> int:
    """Changes when the content does, but for a permutation of it; takes no memory."""
    if tensor.numel() == 0 or tensor.layout is not torch.strided:
        return 0
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    whole = plain.detach().view(_AS_INTEGERS[plain.element_size()])
    return int(whole.sum(dtype=torch.int64))
