"""Texts to try for one closed definition: the same code with constructor arguments and inputs guessed by convention."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from autotriton.data.harvest import conventions
from autotriton.data.harvest.closure import Closed
from autotriton.syntax import parse_source

_MOST_TEXTS = 24
_CONFIGS = ("config", "cfg", "args", "configuration")


class NotGuessed(Exception):
    """Nobody can know what to call it with; the message names the argument."""


def texts(closed: Closed, source: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """At most a few dozen texts, likeliest first. `source` still has its annotations."""
    if isinstance(source, ast.FunctionDef):
        makers = [_inputs(names) for names in _calls(source, skip=0)]
        return [closed.text + "\n\n\n" + maker for maker in makers[:_MOST_TEXTS]]
    forward = _method(source, "forward")
    if forward is None:
        raise NotGuessed("it has no forward of its own")
    init = _constructor(closed, _method(source, "__init__"))
    head = closed.text + _needs(init) + "\n\n\n"
    return [head + f"{_inputs(call)}\n\n\n{init}" for call in _calls(forward, skip=1)][:_MOST_TEXTS]


def _needs(init: str) -> str:
    """Imports the guessed constructor arguments use."""
    lines = []
    if "nn." in init:
        lines.append("from torch import nn")
    if "SimpleNamespace" in init:
        lines.append("from types import SimpleNamespace")
    return "\n\n" + "\n".join(lines) if lines else ""


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _constructor(closed: Closed, init: ast.FunctionDef | None) -> str:
    if init is None:
        return "def get_init_inputs():\n    return []"
    words = []
    for argument, default in _arguments(init.args)[1:]:
        name = argument.arg
        if name in _CONFIGS and default is None:
            words.append(f"{name!r}: {_config(closed, name)}")
            continue
        if default is None:
            if name in ("layer_idx", "layer_id", "block_idx", "index", "device", "dtype"):
                words.append(f"{name!r}: {'0' if 'i' in name and name not in ('device',) else 'None'}")
                continue
            value = conventions.argument(name, argument.annotation)
            if value is None:
                raise NotGuessed(f"constructor argument `{name}`")
            words.append(f"{name!r}: {value}")
        elif _large(default):
            value = conventions.argument(name, argument.annotation)
            if value is not None and value.isdigit():
                words.append(f"{name!r}: {value}")
        elif _random(name, default):
            words.append(f"{name!r}: 0.0")
    return (
        f"def get_init_inputs():\n    return [[], {{{', '.join(words)}}}]"
        if words
        else "def get_init_inputs():\n    return []"
    )


def _arguments(given: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    places = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(places) - len(given.defaults)) + list(given.defaults)
    return [*zip(places, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]


def _large(default: ast.expr) -> bool:
    """Default sizes of published models are too large to be tried on a laptop."""
    return isinstance(default, ast.Constant) and type(default.value) is int and default.value > 64


def _random(name: str, default: ast.expr) -> bool:
    return "drop" in name and isinstance(default, ast.Constant) and type(default.value) is float and default.value > 0


def _config(closed: Closed, name: str) -> str:
    """An object with every field the code asks it for."""
    fields: dict[str, str] = {}
    for node in itertools.chain.from_iterable(ast.walk(parse_source(text)) for text in closed.definitions):
        if isinstance(node, ast.Attribute) and _is_config(node.value, name):
            fields[node.attr] = conventions.field(node.attr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) == 2  # with a default, nothing is needed
            and _is_config(node.args[0], name)
            and isinstance(node.args[1], ast.Constant)
        ):
            fields[str(node.args[1].value)] = conventions.field(str(node.args[1].value))
    if not fields:
        raise NotGuessed(f"constructor argument `{name}`")
    return f"SimpleNamespace({', '.join(f'{key}={value}' for key, value in sorted(fields.items()))})"


def _is_config(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)


def _calls(function: ast.FunctionDef, skip: int) -> Iterator[list[str]]:
    """Expressions for the required arguments, one list per layout of the first tensor."""
    required = [argument for argument, default in _arguments(function.args)[skip:] if default is None]
    if not required or (function.args.vararg is not None and not required):
        raise NotGuessed("it takes no tensor")
    kinds = [_kind(argument) for argument in required]
    if "tensor" not in kinds:
        raise NotGuessed("it takes no tensor")
    seen: set[tuple[str, ...]] = set()
    for layout in conventions.LAYOUTS:
        call = []
        for argument, kind in zip(required, kinds, strict=True):
            if kind == "tensor":
                call.append(conventions.draw(argument.arg, layout))
            else:
                value = conventions.argument(argument.arg, argument.annotation)
                if value is None or not value.replace(".", "").replace("e-", "").isdigit():
                    raise NotGuessed(f"argument `{argument.arg}`")
                call.append(value)
        if tuple(call) not in seen:
            seen.add(tuple(call))
            yield call


def _kind(argument: ast.arg) -> str:
    told = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    if "Tensor" in told:
        if told.split("[")[0] in ("List", "list", "Tuple", "tuple", "Dict", "dict", "Sequence"):
            raise NotGuessed(f"argument `{argument.arg}`")
        return "tensor"
    if told in ("int", "float"):
        return "number"
    if not told and conventions.is_tensor_name(argument.arg):
        return "tensor"
    if not told and conventions.number(argument.arg) is not None and argument.arg not in ("out", "size", "c"):
        return "number"
    raise NotGuessed(f"argument `{argument.arg}`")


def _inputs(call: list[str]) -> str:
    return f"def get_inputs():\n    return [{', '.join(call)}]"
