"""The task as a program: its module, its model on fake tensors, and how its arguments are given.

Runs in the capturing child process only, and executes the task's own source.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch import Tensor, nn

from autotriton.propose.compiler.inductor.fake_modules import convertible_modules
from autotriton.propose.compiler.inductor.record import Request
from autotriton.types import Mode

PLAIN = (int, float, bool, str, type(None))
_FILENAME = "<task>"


class Unsupported(Exception):
    """The task has something the engine cannot express; the message is for the user."""


_DROPOUT = ("dropout", "bernoulli")


def refuse_random(graph: torch.fx.GraphModule | torch.fx.Graph) -> None:
    """A reference that answers differently every time cannot be compared with anything."""
    for node in (graph.graph if isinstance(graph, torch.fx.GraphModule) else graph).nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _drops_nothing(node):
            called = str(node.meta.get("original_aten") or node.target)
            name = called.removeprefix("aten.").rpartition(".")[0] or called
            why = ", active dropout" if any(word in name for word in _DROPOUT) else ""
            raise Unsupported(f"forward is random: it calls {name}{why}, so no kernel can be compared with it")


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Attention and recurrent nets carry the tag of random operators for a dropout that may be zero."""
    given = {argument.name: argument.default_value for argument in node.target._schema.arguments}  # type: ignore[union-attr]
    given |= dict(zip(given, node.args, strict=False)) | node.kwargs
    chance = given.get("dropout_p", given.get("dropout"))
    return chance is not None and (chance == 0 or given.get("train") is False)


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
    with convertible_modules():
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


def input_leaves(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """How `forward` reads each value among its arguments, `xs[0]`, and the value: a tensor or something plain."""
    for path, value in pytree.tree_flatten_with_path(dict(bound.arguments))[0]:
        first, *rest = (getattr(key, "idx", getattr(key, "key", None)) for key in path)
        expression = str(first) + "".join(f"[{key!r}]" for key in rest)
        if not isinstance(value, (Tensor, *PLAIN)):
            raise Unsupported(f"input {expression} is a {type(value).__name__}, neither tensor nor number")
        yield expression, value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def state_path(model: nn.Module, name: str) -> str:
    """`layers.0.weight` as Python: `self.layers[0].weight`."""
    text, owner = "self", model
    for part in name.split("."):
        if isinstance(owner, nn.ModuleDict | nn.ParameterDict):
            text += f"[{part!r}]"
        else:
            text += f"[{part}]" if part.isdigit() else f".{part}"
        owner = getattr(owner, part, None)  # type: ignore[assignment]
    return text


def returned(value: Any, found: list[Tensor]) -> str:
    """The returned structure as source; its tensors are collected and named `_out0`, `_out1`, ..."""
    if isinstance(value, Tensor):
        found.append(value)
        return f"_out{len(found) - 1}"
    if type(value) is tuple or type(value).__module__ == "torch.return_types":  # `max(x, 1)`: with names, a tuple
        return "(" + "".join(returned(item, found) + ", " for item in value) + ")"
    if type(value) is list:
        return "[" + ", ".join(returned(item, found) for item in value) + "]"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {returned(item, found)}" for key, item in value.items()) + "}"
    if isinstance(value, PLAIN):
        return repr(value)
    raise Unsupported(f"forward returns a {type(value).__name__}; tensors, tuples, lists and dicts are supported")


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
