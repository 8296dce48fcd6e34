"""Calls of a module as flat lists of tensors, and back.

Must stay true: `model(x)`, `model(x=x)` and `model(x, scale=2.0)` with the default spelled out are one and the same
call. Whatever is no tensor is part of what a kernel was verified for.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from autotriton.errors import TaskError, UsageError
from autotriton.live.outlines import Outline, Unknown, Unlike, has_outline

_RESERVED = frozenset(("self", "torch", "nn", "F", "table", "tables"))


@dataclass(frozen=True)
class CallSpec:
    """How the arguments of one kind of call become a list of tensors."""

    parameters: tuple[tuple[str, inspect._ParameterKind, Any], ...]
    """Name, kind and default of each parameter of `forward`."""
    outline: Outline
    """Of the arguments by parameter name."""
    names: tuple[str, ...]
    """An identifier for each tensor."""
    explicit: tuple[str, ...]
    """Parameters the example gives a value; the others stay at their defaults."""
    positional: int
    """How many of them it passes without their names, which decorators may insist on."""

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.Signature([inspect.Parameter(n, kind, default=d) for n, kind, d in self.parameters])

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The tensors of a call of this kind. Raises `Unlike` for other calls, TypeError as the call itself would."""
        arguments = normalise(self.signature, args, kwargs)
        known = {key: arguments.pop(key) for key in self.outline.root.keys}
        for key, value in arguments.items():  # of a kind that cannot be compared, so only the default will do
            if value is not self.signature.parameters[key].default:
                raise Unlike(f"{key} is not its default")
        return self.outline.tensors_of(known)

    def rebuild(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the example passed them, with other tensors."""
        arguments = self.outline.rebuild(tensors)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, kind, _ in self.parameters:
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args += arguments[name]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= arguments[name]
            elif name in self.explicit and len(args) < self.positional:
                args.append(arguments[name])
            elif name in self.explicit:
                kwargs[name] = arguments[name]
        return tuple(args), kwargs


def normalise(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by parameter name, defaults included."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _comparable(arguments: dict[str, Any], explicit: Collection[str]) -> dict[str, Any]:
    """The arguments without those defaults that have no outline."""
    return {name: value for name, value in arguments.items() if name in explicit or has_outline(value)}


def describe_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CallSpec, list[Tensor]]:
    """The kind of call an example is, and its tensors."""
    signature, name = inspect.signature(module.forward), type(module).__name__
    try:
        explicit = tuple(signature.bind(*args, **kwargs).arguments)
        outline, tensors = Outline.of(_comparable(normalise(signature, args, kwargs), explicit))
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit {name}.forward: {error}", hint=f"it takes {signature}"
        ) from None
    except Unknown as error:
        raise UsageError(
            f"an input of {name} is of a kind that cannot be passed to a kernel: {error}",
            hint="tensors, numbers, strings and None in tuples, lists, dicts and dataclasses are supported",
        ) from None
    if not tensors:
        raise UsageError(f"the example inputs of {name} hold no tensor", hint="give them as the module is called")
    parameters = tuple((p.name, p.kind, p.default) for p in signature.parameters.values())
    return CallSpec(parameters, outline, tuple(_identifiers(outline.paths)), explicit, len(args)), tensors


def example_call(
    module: nn.Module, given: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of what a user passes as an example."""
    named = dict(kwargs or {})
    if isinstance(given, Mapping):
        if all(isinstance(key, str) for key in given) and _fits(module, {**given, **named}):
            return (), {**given, **named}
        return (given,), named
    if type(given) in (tuple, list):
        return tuple(given), named
    return (given,), named


def results_of(value: Any, name: str) -> tuple[Outline, list[Tensor]]:
    """What a module returned, flat."""
    try:
        outline, tensors = Outline.of(value)
    except Unknown as error:
        if error.kind.startswith("Sym"):
            raise TaskError(f"{name} returns a number made out of tensor values", hint="return the tensor") from None
        raise TaskError(
            f"{name} returns something no kernel can: {error}",
            hint="tensors, numbers, strings and None in tuples, lists, dicts and dataclasses are supported",
        ) from None
    if not tensors:
        raise TaskError(f"{name} returns no tensor")
    return outline, tensors


def _fits(module: nn.Module, named: dict[str, Any]) -> bool:
    try:
        inspect.signature(module.forward).bind(**named)
    except TypeError:
        return False
    return True


def _identifiers(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """A readable variable name for each path: `x`, `states_0`, `batch_ids`."""
    taken, found = set(_RESERVED), []
    for path in paths:
        name = re.sub(r"\W+", "_", "_".join(path)).strip("_") or "value"
        name = f"_{name}" if name[0].isdigit() else name
        while name in taken or keyword.iskeyword(name):
            name += "_"
        taken.add(name)
        found.append(name)
    return found
