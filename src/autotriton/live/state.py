"""A live module's parameters, buffers and tensor attributes: how to write them down, and how to lend them out.

Must stay true: what is lent are the module's own tensors, looked up anew at every call, so that loading, moving or
replacing weights is seen at once and nothing is ever copied.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.errors import TaskError
from autotriton.live import values
from autotriton.syntax import parse_expression, parse_literal
from autotriton.tasks.live import Table

CONSTANT = "constant_{}"
_STATE = ("_parameters", "_buffers")


@dataclass(frozen=True)
class Place:
    """Where a module keeps one tensor: a dictionary of one of its parts and a key in it."""

    name: str
    """Dotted: `layers.0.weight`."""
    held: dict[str, Any]
    key: str

    @property
    def tensor(self) -> Any:
        return self.held.get(self.key)


def places(module: nn.Module) -> dict[str, Place]:
    """Every tensor a module holds: parameters, buffers, plain attributes; shared ones under each of their names."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for held in (*(vars(part)[kind] for kind in _STATE), vars(part)):
            for key, value in held.items():
                if isinstance(value, Tensor):
                    name = f"{prefix}.{key}" if prefix else key
                    found[name] = Place(name, held, key)
    return found


def ties(module: nn.Module) -> tuple[tuple[str, str], ...]:
    """Pairs of names under which one tensor is held twice."""
    first: dict[int, str] = {}
    named = [(name, first.setdefault(id(place.tensor), name)) for name, place in places(module).items()]
    return tuple((earlier, name) for name, earlier in named if name != earlier)


@dataclass
class Constructor:
    """Source of a module that holds the same tensors by the same names."""

    base: str = "nn.Module"
    statements: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    """Dotted name -> how `forward` reads it: `self.layers[0].weight`."""


def write_constructor(module: nn.Module, constants: dict[str, Tensor]) -> Constructor:
    """`constants` are further tensors the graph needs, by the names they get as buffers."""
    writer = _Writer()
    writer.result.base = _base(module)
    writer.module(module, "", "self")
    for name, tensor in constants.items():
        writer.buffer("self", name, name, tensor, persistent=False)
    return writer.result


class _Writer:
    def __init__(self) -> None:
        self.result = Constructor()
        self.modules: dict[int, str] = {}
        self.tensors: dict[int, str] = {}

    def module(self, module: nn.Module, prefix: str, path: str) -> None:
        self.modules[id(module)] = path
        self.own(module, prefix, path)
        for key, child in module._modules.items():
            if child is not None:
                self.child(module, child, key, prefix, path)

    def child(self, parent: nn.Module, child: nn.Module, key: str, prefix: str, path: str) -> None:
        name, there = f"{prefix}{key}", _step(parent, path, key)
        if id(child) in self.modules:  # one layer under two names
            self.add(path, key, self.modules[id(child)])
            self.result.paths |= {f"{name}.{rest}": _read(child, there, rest) for rest in places(child)}
            return
        if not places(child) and key.isidentifier():
            return
        made = _standard(child)
        self.add(path, key, made or f"{_base(child)}()")
        if made is None:
            self.module(child, f"{name}.", there)
            return
        self.modules[id(child)] = there
        for inner, place in places(child).items():
            self.tied(f"{name}.{inner}", there, inner, place.tensor)

    def tied(self, name: str, path: str, key: str, tensor: Tensor) -> bool:
        """Notes where a tensor is; replaces it by the one it is the same as."""
        self.result.paths[name] = f"{path}.{key}"
        if id(tensor) in self.tensors:
            first = self.tensors[id(tensor)]
            kind = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
            self.result.statements.append(f"{path}.register_{kind}({key!r}, {first})")
            return True
        self.tensors[id(tensor)] = f"{path}.{key}"
        return False

    def own(self, module: nn.Module, prefix: str, path: str) -> None:
        """The tensors a module holds itself."""
        for key, parameter in module._parameters.items():
            if parameter is not None:
                self.parameter(module, key, f"{prefix}{key}", path, parameter)
        for key, tensor in module._buffers.items():
            if tensor is not None:
                self.buffer(path, key, f"{prefix}{key}", tensor, key not in module._non_persistent_buffers_set)
        for key, value in vars(module).items():
            if isinstance(value, Tensor):
                self.buffer(path, key, f"{prefix}{key}", value, persistent=False)

    def parameter(self, owner: nn.Module, key: str, name: str, path: str, parameter: Tensor) -> None:
        made = f"nn.Parameter({_parameter(parameter)})"
        if isinstance(owner, nn.ParameterList):
            self.result.paths[name] = f"{path}[{key}]"
            first = self.tensors.setdefault(id(parameter), f"{path}[{key}]")
            self.result.statements.append(f"{path}.append({made if first == f'{path}[{key}]' else first})")
        elif not key.isidentifier():
            raise TaskError(f"parameter {name!r} has a name that cannot be written in Python")
        elif not self.tied(name, path, key, parameter):
            self.result.statements.append(
                f"{path}.register_parameter({key!r}, {made})" if path != "self" else f"self.{key} = {made}"
            )

    def buffer(self, path: str, key: str, name: str, tensor: Tensor, persistent: bool) -> None:
        if self.tied(name, path, key, tensor):
            return
        text = values.buffer(tensor)
        if text is None:
            text = f"tables[{name!r}]"
            self.result.tables.append(Table(name, values.exact(tensor)))
        ending = "" if persistent else ", persistent=False"
        self.result.statements.append(f"{path}.register_buffer({key!r}, {text}{ending})")

    def add(self, path: str, key: str, made: str) -> None:
        if path == "self" and key.isidentifier():
            self.result.statements.append(f"self.{key} = {made}")
        else:
            self.result.statements.append(f"{path}.add_module({key!r}, {made})")


def _base(module: nn.Module) -> str:
    """A container that is read the way names of its children ask for."""
    keys = list(module._modules)
    if isinstance(module, nn.ParameterList):
        return "nn.ParameterList"
    if keys and keys == [str(index) for index in range(len(keys))]:
        return "nn.ModuleList"
    return "nn.Module" if all(key.isidentifier() for key in keys) else "nn.ModuleDict"


def _step(parent: nn.Module, path: str, key: str) -> str:
    base = _base(parent)
    if base == "nn.ModuleList":
        return f"{path}[{key}]"
    return f"{path}[{key!r}]" if base == "nn.ModuleDict" else f"{path}.{key}"


def _read(module: nn.Module, path: str, name: str) -> str:
    """A dotted name below a module, as `forward` reads it."""
    *parts, last = name.split(".")
    for part in parts:
        path, module = _step(module, path, part), getattr(module, part)
    return f"{path}[{last}]" if isinstance(module, nn.ParameterList) else f"{path}.{last}"


def _parameter(tensor: Tensor) -> str:
    text = values.parameter(tensor)
    return text if tensor.dtype.is_floating_point else f"{text}, requires_grad=False"


def _standard(module: nn.Module) -> str | None:
    """`nn.Linear(16, 32)`, where torch's own layer, built from what its repr says, holds the same tensors."""
    kind = type(module)
    if getattr(nn, kind.__name__, None) is not kind or module._modules:
        return None
    wanted = _kinds(module)
    dtypes = {dtype for dtype, _, _ in wanted.values() if dtype.is_floating_point}
    typed = f", dtype={dtypes.pop()}" if len(dtypes) == 1 and dtypes != {torch.float32} else ""
    try:
        text = _without_defaults(kind, f"nn.{kind.__name__}({module.extra_repr()}{typed})")
        with torch.device("meta"):
            made = eval(text, {"nn": nn, "torch": torch})
    except Exception:  # noqa: BLE001 - a repr is for people: anything may be wrong with it as source
        return None
    return text if _kinds(made) == wanted else None


def _without_defaults(kind: type, text: str) -> str:
    """The call without what it need not say: other versions of torch may not know an argument."""
    call = parse_expression(text)
    assert isinstance(call, ast.Call)
    defaults = {name: repr(parameter.default) for name, parameter in inspect.signature(kind).parameters.items()}
    call.keywords = [k for k in call.keywords if repr(_literal(k.value)) != defaults.get(str(k.arg))]
    return ast.unparse(call)


def _literal(node: ast.expr) -> Any:
    try:
        return parse_literal(node)
    except ValueError:
        return node


def _kinds(module: nn.Module) -> dict[str, tuple[torch.dtype, torch.Size, tuple[int, ...]]]:
    tensors = {name: place.tensor for name, place in places(module).items()}
    return {name: (tensor.dtype, tensor.shape, tensor.stride()) for name, tensor in tensors.items()}


class Lending:
    """Puts one module's tensors, as they are now, into the places of another module."""

    def __init__(self, pairs: list[tuple[Place, Place]]) -> None:
        self.pairs = pairs

    def refresh(self) -> None:
        for source, target in self.pairs:
            target.held[target.key] = source.held.get(source.key)

    @property
    def sources(self) -> Iterator[Place]:
        return (source for source, _ in self.pairs)
