"""The shape of a nested value: containers and plain values, with a number in place of each tensor.

Knows tuples, named tuples, lists, dicts and their subclasses, dataclasses, and the dict-like dataclasses that model
libraries return. Outlines are plain records: they can be compared, copied and pickled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor

PLAIN = (int, float, bool, str, type(None))
CONSTANT = (*PLAIN, bytes, complex, torch.dtype, torch.device, torch.memory_format, Enum)
"""What is compared by value."""


class Unknown(Exception):
    """A value of a kind that has no outline: where it is, and its type's name."""

    def __init__(self, path: tuple[str, ...], kind: str) -> None:
        super().__init__(f"{'.'.join(path) or 'it'} is a {kind}")
        self.path, self.kind = path, kind


class Unlike(Exception):
    """A value does not have the outline it should have; the text says where and how."""


@dataclass(frozen=True)
class Place:
    """A tensor, by number."""

    index: int


@dataclass(frozen=True)
class Container:
    kind: type
    keys: tuple[Any, ...]
    """Dict keys or field names; numbers where the items have none."""
    items: tuple[Any, ...]

    def make(self, items: Sequence[Any]) -> Any:
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**dict(zip(self.keys, items, strict=True)))
        if issubclass(self.kind, Mapping):
            return self.kind(zip(self.keys, items, strict=True))  # type: ignore[call-arg]
        return self.kind(*items) if hasattr(self.kind, "_fields") else self.kind(items)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Outline:
    """A nested value without its tensors."""

    root: Any
    paths: tuple[tuple[str, ...], ...]
    """Where each tensor is."""

    @staticmethod
    def of(value: Any) -> tuple[Outline, list[Any]]:
        """The outline and the tensors. Raises `Unknown`."""
        tensors: list[Any] = []
        paths: list[tuple[str, ...]] = []
        return Outline(_take(value, (), tensors, paths), tuple(paths)), tensors

    def rebuild(self, tensors: Sequence[Any]) -> Any:
        return _fill(self.root, tensors)

    def tensors_of(self, value: Any) -> list[Any]:
        """What is in the places of a value that should have this outline. Raises `Unlike`."""
        found: list[Any] = []
        _match(self.root, value, "", found)
        return found


def has_outline(value: Any) -> bool:
    try:
        Outline.of(value)
    except Unknown:
        return False
    return True


def _parts(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Keys and items of a container; None for anything else."""
    if isinstance(value, Mapping):
        return tuple(value), tuple(value.values())
    if isinstance(value, tuple | list):
        return tuple(range(len(value))), tuple(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
        return names, tuple(getattr(value, name) for name in names)
    return None


def _take(value: Any, path: tuple[str, ...], tensors: list[Any], paths: list[tuple[str, ...]]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        paths.append(path)
        return Place(len(tensors) - 1)
    if isinstance(value, CONSTANT):
        return value
    parts = _parts(value)
    if parts is None:
        raise Unknown(path, type(value).__name__)
    keys, items = parts
    return Container(
        type(value), keys, tuple(_take(v, (*path, str(k)), tensors, paths) for k, v in zip(keys, items, strict=True))
    )


def _fill(part: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(part, Place):
        return tensors[part.index]
    if isinstance(part, Container):
        return part.make([_fill(item, tensors) for item in part.items])
    return part


def _match(part: Any, value: Any, path: str, found: list[Any]) -> None:
    if isinstance(part, Place):
        if not isinstance(value, Tensor):
            raise Unlike(f"{path} is a {type(value).__name__} where a tensor was")
        found.append(value)
    elif isinstance(part, Container):
        parts = _parts(value) if type(value) is part.kind else None
        if parts is None or parts[0] != part.keys:
            raise Unlike(f"{path or 'the call'} has other contents")
        for key, item, inner in zip(part.keys, part.items, parts[1], strict=True):
            _match(item, inner, f"{path}.{key}" if path else str(key), found)
    elif type(value) is not type(part) or value != part:
        raise Unlike(f"{path} is {_short(value)} where {part!r} was")


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, CONSTANT) else f"a {type(value).__name__}"
