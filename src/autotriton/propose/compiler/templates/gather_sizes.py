"""How large the result of an operator is that reads a tensor at computed places, in terms of that tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.gathers import index_place, tables
from autotriton.propose.compiler.templates.piece import shape_of

Name = Callable[[torch.fx.Node], str]
"""What a tensor or a number is called in the wrapper."""


def sizes(member: torch.fx.Node, name: Name) -> list[str]:
    """An expression per dimension of the result; empty where an operand that is read in place tells it."""
    made = _SIZES.get(name_of(member))
    return made(member, name) if made is not None else [""] * len(shape_of(member))


def _own(node: Any, name: Name) -> list[str]:
    table = tables(node)[0]
    return [f"{name(table)}.shape[{d}]" for d in range(len(shape_of(table)))]


def _embedding(node: Any, name: Name) -> list[str]:
    return [*[""] * (len(shape_of(node)) - 1), f"{name(node.args[0])}.shape[1]"]


def _index_select(node: Any, name: Name) -> list[str]:
    found = _own(node, name)
    found[int(node.args[1])] = ""
    return found


def _index(node: Any, name: Name) -> list[str]:
    own, (first, count) = _own(node, name), index_place(node)
    indexed = sum(i is not None for i in node.args[1])
    return [*own[:first], *[""] * count, *own[first + indexed :]]


def _pad(node: Any, name: Name) -> list[str]:
    found = _own(node, name)
    pads = list(node.args[1])
    for k in range(len(pads) // 2):
        for amount in pads[2 * k : 2 * k + 2]:
            if amount != 0:
                found[-1 - k] += f" + {_written(amount, name)}"
    return found


def _cat(node: Any, name: Name) -> list[str]:
    parts = [part for part in node.args[0] if shape_of(part) != (0,)]
    found = [f"{name(parts[0])}.shape[{d}]" for d in range(len(shape_of(node)))]
    dim = int(node.args[1]) % len(found) if len(node.args) > 1 else 0
    found[dim] = " + ".join(f"{name(part)}.shape[{dim}]" for part in parts)
    return found


def _repeat(node: Any, name: Name) -> list[str]:
    times = list(node.args[1])
    own = [*["1"] * (len(times) - len(shape_of(node.args[0]))), *_own(node, name)]
    return [text if count == 1 else f"{text} * {_written(count, name)}" for text, count in zip(own, times, strict=True)]


def _arange(node: Any, name: Name) -> list[str]:
    args = list(node.args)
    start, end = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    if not any(isinstance(arg, torch.fx.Node) for arg in (start, end, step)):
        return [""]
    length = _written(end, name) if start == 0 else f"{_written(end, name)} - {_written(start, name)}"
    return [length if step == 1 else f"triton.cdiv({length}, {_written(step, name)})"]


def _written(value: object, name: Name) -> str:
    return name(value) if isinstance(value, torch.fx.Node) else str(value)


_SIZES: dict[str, Callable[[torch.fx.Node, Name], list[str]]] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "index": _index,
    "constant_pad_nd": _pad,
    "cat": _cat,
    "flip": _own,
    "repeat": _repeat,
    "arange": _arange,
}
