"""Concatenations of many tensors: a kernel chooses among its operands element by element, so they should be few.

A dense network concatenates what it has with one tensor more, again and again: that is two operands, not a hundred. A
stack of many steps is a stack of stacks. What is empty, the padding of a causal convolution with nothing to pad, is no
operand.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates.expressions import name_of

aten = torch.ops.aten
_FEW, _WIDE = 3, 16
"""Operands up to which a concatenation stays as it is, and at most."""


def narrow(graph: torch.fx.Graph) -> None:
    """Gives every concatenation few operands, where they are all of one type."""
    known: list[tuple[torch.fx.Node, tuple[torch.fx.Node, ...], int]] = []
    for node in list(graph.nodes):
        if node.op != "call_function" or name_of(node) != "cat":
            continue
        _drop_empty(node)
        parts: tuple[torch.fx.Node, ...] = tuple(node.args[0])
        dim = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) % max(_value(node).dim(), 1)
        if len(parts) > _FEW and len({_value(part).dtype for part in parts}) == 1:
            node.args, node.kwargs = (_fewer(graph, node, parts, dim, known), dim), {}
        known.append((node, parts, dim))


def _drop_empty(node: torch.fx.Node) -> None:
    parts: list[torch.fx.Node] = list(node.args[0])  # type: ignore[arg-type]
    full = [part for part in parts if 0 not in [size for size in _value(part).shape if isinstance(size, int)]]
    kinds = {_value(part).dtype for part in full}
    if 0 < len(full) < len(parts) and kinds == {_value(node).dtype}:  # those that are empty have a say in the type
        node.args = (full, *node.args[1:])


def _fewer(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    parts: Sequence[torch.fx.Node],
    dim: int,
    known: Sequence[tuple[torch.fx.Node, tuple[torch.fx.Node, ...], int]],
) -> list[torch.fx.Node]:
    begun = [
        one for one in known if one[2] == dim and 1 < len(one[1]) < len(parts) and tuple(parts[: len(one[1])]) == one[1]
    ]
    if begun:
        longest = max(begun, key=lambda one: len(one[1]))
        parts = [longest[0], *parts[len(longest[1]) :]]
    while len(parts) > _WIDE:
        chunks = [parts[start : start + _WIDE] for start in range(0, len(parts), _WIDE)]
        with graph.inserting_before(node):
            parts = [_joined(graph, chunk, dim) for chunk in chunks]
    return list(parts)


def _joined(graph: torch.fx.Graph, parts: Sequence[torch.fx.Node], dim: int) -> torch.fx.Node:
    if len(parts) == 1:
        return parts[0]
    made = graph.call_function(aten.cat.default, (list(parts), dim))
    made.meta["val"] = aten.cat.default([_value(part) for part in parts], dim)
    return made


def _value(node: torch.fx.Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value
