"""Source text becomes a module that computes with another module's own tensors.

Used for the task's `Model`, to check it, and for a verified kernel file, to run it. The text has been judged or was
written by us; it runs in the user's process.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.errors import TaskError
from autotriton.live.state import Lending, Place, places


def load(source: str, title: str) -> ModuleType:
    """The text as a module whose lines Triton and tracebacks can find."""
    name = f"autotriton_live_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    filename = f"<{title}: {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class Borrower:
    """An instance that computes with tensors looked up, at every call, where their owner keeps them."""

    def __init__(
        self, kind: type[nn.Module], init: Iterable[Any], owned: Mapping[str, Place], device: torch.device
    ) -> None:
        self.instance, lending = _instantiate(kind, list(init), owned, device)
        self.lending = lending

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The results as a flat tuple. Outside autograd."""
        self.lending.refresh()
        with torch.no_grad(), _on(tensors[0]):
            result = self.instance(*tensors)
        return tuple(result) if isinstance(result, tuple | list) else (result,)


@contextmanager
def _on(tensor: Tensor) -> Iterator[None]:
    """Kernels are launched on the current device, wherever their arguments are."""
    if tensor.device.type == "cuda" and tensor.device.index != torch.cuda.current_device():
        with torch.cuda.device(tensor.device):
            yield
    else:
        yield


def _instantiate(
    kind: type[nn.Module], init: list[Any], owned: Mapping[str, Place], device: torch.device
) -> tuple[nn.Module, Lending]:
    """Without memory of its own if it can be had: everything it holds is lent."""
    try:
        with torch.device("meta"):
            instance = kind(*init)
        lending, left = _lend(instance, owned)
    except (NotImplementedError, RuntimeError):  # the constructor computes with values
        left = [""]
    if any(left):
        with torch.device(device), torch.no_grad():
            instance = kind(*init).to(device)
        lending, left = _lend(instance, owned)
    return instance, lending


def _lend(instance: nn.Module, owned: Mapping[str, Place]) -> tuple[Lending, list[str]]:
    """Who lends what to whom, and which tensors of the instance are its own: by name, else by shape and order."""
    have = places(instance)
    pairs: list[tuple[Place, Place]] = []
    unmatched = []
    for name, place in owned.items():
        if name in have and _alike(place.tensor, have[name].tensor):
            pairs.append((place, have.pop(name)))
        else:
            unmatched.append(place)
    for place in unmatched:
        match = next((name for name, other in have.items() if _alike(place.tensor, other.tensor)), None)
        if match is not None:
            pairs.append((place, have.pop(match)))
    _refuse_second_homes(instance, pairs)
    return Lending(pairs), list(have)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _refuse_second_homes(instance: nn.Module, pairs: list[tuple[Place, Place]]) -> None:
    """A tensor kept twice, as itself and inside a list or as a view, would not see what is lent in its place."""
    lent = {target.tensor.untyped_storage()._cdata: target.name for _, target in pairs}
    for part in instance.modules():
        for key, value in vars(part).items():
            if key in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in _tensors(value):
                name = lent.get(tensor.untyped_storage()._cdata)
                if name is not None and name.rpartition(".")[2] != key:
                    raise TaskError(f"the kernel file keeps `{name}` in `{key}` too, so it cannot use live weights")


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
