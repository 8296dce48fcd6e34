"""The task as a program: its module, its model on fake tensors, and how its arguments are given.

Runs in the capturing child process only, and executes the task's own source.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import nn

from autotriton.propose.compiler.inductor.record import Request
from autotriton.types import Mode

PLAIN = (int, float, bool, str, type(None))
_FILENAME = "<task>"


class Unsupported(Exception):
    """The task has something the engine cannot express; the message is for the user."""


def load(request: Request) -> Any:
    if request.import_root is not None:
        sys.path.insert(0, request.import_root)
    lines = request.source.splitlines(keepends=True)
    linecache.cache[_FILENAME] = (len(request.source), None, lines, _FILENAME)
    module = ModuleType("task")
    sys.modules[module.__name__] = module
    exec(compile(request.source, _FILENAME, "exec"), module.__dict__)
    return module


def build(request: Request, module: Any) -> Callable[..., Any]:
    entry = getattr(module, request.entry)
    if not inspect.isclass(entry):
        return entry  # type: ignore[no-any-return]
    args, kwargs = call_arguments(getattr(module, "get_init_inputs", tuple)(), pair=(list, tuple))
    model = entry(*args, **kwargs)
    if not isinstance(model, nn.Module):
        raise Unsupported(f"{request.entry} is a class but no nn.Module")
    return model.train(request.mode is Mode.TRAIN)


def call_arguments(given: Any, pair: tuple[type, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A list is positional, a dict named, and `(positional, named)` both."""
    if isinstance(given, dict):
        return (), given
    if type(given) in pair and len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return tuple(given[0]), given[1]
    return (tuple(given), {}) if isinstance(given, list | tuple) else ((given,), {})


def bind(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    forward = model.forward if isinstance(model, nn.Module) else model
    return inspect.signature(forward).bind(*args, **kwargs)


def signature(model: Callable[..., Any]) -> str:
    """The parameters of `forward` as source, with the defaults that can be written as literals."""
    forward = model.forward if isinstance(model, nn.Module) else model
    parameters = []
    for parameter in inspect.signature(forward).parameters.values():
        default = parameter.default
        if default is not inspect.Parameter.empty and not isinstance(default, PLAIN):
            default = None
        parameters.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    return str(inspect.Signature(parameters))[1:-1]
