"""Modules without weights of their own: an operator's arguments take their places for the length of a call.

Nothing is shared between calls, so threads and nested calls do not meet, and no weight is kept alive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from triton import knobs

_HELD = ("_parameters", "_buffers", "_modules")


class Skeleton:
    """A module's layers and settings. Called with all its tensors, in the order of `names`, and the inputs.

    `names` has for each tensor the places it belongs to; more than one where layers share it.
    """

    def __init__(
        self, kind: type[nn.Module], init: Callable[[], Any], names: Sequence[Sequence[str]], training: bool
    ) -> None:
        self.kind, self.init, self.training = kind, init, training
        try:
            with torch.device("meta"):
                self.bare = self._built()
        except (NotImplementedError, RuntimeError):  # its constructor computes with values
            self.bare = self._built()
        have = spots(self.bare)
        self.spots = [[have.pop(name) for name in each] for each in names]
        self.owns_tensors = bool(have)
        self.whole: dict[torch.device, nn.Module] = {}

    def __call__(self, state: Sequence[Tensor], *args: Any, **kwargs: Any) -> list[Tensor]:
        """The tensors the module returns, flat."""
        module = _copied(self._prototype((*state, *args, *kwargs.values())), {})
        for places, tensor in zip(self.spots, state, strict=True):
            for part, held, key in places:
                owner = vars(module.get_submodule(part))
                (owner if held == "__dict__" else owner[held])[key] = tensor
        return leaves(module(*args, **kwargs))

    def _prototype(self, given: Sequence[Any]) -> nn.Module:
        """One that only lacks the tensors it is lent; tensors of its own have to be on the device."""
        if not self.owns_tensors:
            return self.bare
        device = next(tensor.device for tensor in given if isinstance(tensor, Tensor))
        if device not in self.whole:
            with torch.device(device):
                self.whole[device] = self._built().to(device)
        return self.whole[device]

    def _built(self) -> nn.Module:
        given = self.init()
        if isinstance(given, Mapping):
            return self.kind(**given).train(self.training)
        if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
            return self.kind(*given[0], **given[1]).train(self.training)
        return self.kind(*given).train(self.training)


class Function:
    """A function, called as a `Skeleton` is; there is no state."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, state: Sequence[Tensor], *args: Any, **kwargs: Any) -> list[Tensor]:
        return leaves(self.function(*args, **kwargs))


def runs_kernels(tensor: Tensor) -> bool:
    """Triton runs on GPUs, and on the CPU only in its interpreter (TRITON_INTERPRET=1)."""
    return tensor.device.type != "cpu" or bool(knobs.runtime.interpret)


def _name_precisions() -> None:
    """Triton's interpreter computes every dot in full precision, but refuses the names of the split ones."""
    from triton.runtime import interpreter

    names = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    single = interpreter.interpreter_builder
    single.options = dataclasses.replace(single.options, allowed_dot_input_precisions=names)


if knobs.runtime.interpret:
    _name_precisions()


def _copied(module: nn.Module, done: dict[int, nn.Module]) -> nn.Module:
    """The module with dictionaries of its own, all the way down; its tensors are the same."""
    if id(module) not in done:
        copy = object.__new__(type(module))
        done[id(module)] = copy
        vars(copy).update(vars(module))
        vars(copy).update({held: dict(vars(module)[held]) for held in _HELD})
        children: dict[str, Any] = vars(copy)["_modules"]
        children.update({key: _copied(child, done) for key, child in children.items() if child is not None})
    return done[id(module)]


def spots(module: nn.Module) -> dict[str, tuple[str, str, str]]:
    """Dotted name -> the part, the dictionary of it and the key a tensor is found under."""
    found = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for held in ("_parameters", "_buffers", "__dict__"):
            items = vars(part) if held == "__dict__" else vars(part)[held]
            for key, value in items.items():
                if isinstance(value, Tensor):
                    found[f"{path}.{key}" if path else key] = (path, held, key)
    return found


def leaves(value: Any) -> list[Tensor]:
    """The tensors of a result: dict entries by key, tuples and lists in their order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value, key=repr) for leaf in leaves(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def fresh(results: Sequence[Tensor], orders: Sequence[Sequence[int]], given: Sequence[Any]) -> list[Tensor]:
    """Results in the layout the operator promises, none of them sharing memory with an argument or another result."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in given if isinstance(tensor, Tensor)}
    made = []
    for result, order in zip(results, orders, strict=True):
        strides = packed(result.shape, order)
        own = result.untyped_storage().data_ptr() not in taken
        if not own or not _laid_out(result, strides):
            result = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device).copy_(result)
        elif result.stride() != strides:  # only where an axis has one element
            result = result.as_strided(result.shape, strides)
        taken.add(result.untyped_storage().data_ptr())
        made.append(result)
    return made


def promised(results: Sequence[Tensor], orders: Sequence[Sequence[int]]) -> list[Tensor]:
    """What `fresh` gives, without values: for the fake kernel."""
    return [
        torch.empty_strided(result.shape, packed(result.shape, order), dtype=result.dtype, device=result.device)
        for result, order in zip(results, orders, strict=True)
    ]


def packed(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, the axes in this order from the fastest."""
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step = step * shape[axis]
    return tuple(strides)


def _laid_out(tensor: Tensor, strides: Sequence[int]) -> bool:
    return all(size <= 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), strides, strict=True))


def gradients(
    run: Callable[..., list[Tensor]], saved: Sequence[Any], needed: Sequence[bool], given: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients of `run(*saved)`, computed by running it once more."""
    again = torch.is_grad_enabled()  # somebody wants to differentiate the gradient itself
    tensors = [
        value.detach().requires_grad_() if need and not again else value
        for value, need in zip(saved, needed, strict=True)
    ]
    with torch.enable_grad():
        results = run(*tensors)
    pairs = [(r, g) for r, g in zip(results, given, strict=True) if g is not None and r.requires_grad]
    wanted = [tensor for tensor, need in zip(tensors, needed, strict=True) if need]
    if not pairs or not wanted:
        return (None,) * len(needed)
    found = iter(
        torch.autograd.grad(
            [result for result, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=again
        )
    )
    return tuple(next(found) if need else None for need in needed)
