"""Finds scans that are written with several operators, so that one kernel does them.

`flip -> cumsum -> flip` is a sum from the end, `cat(zeros, cumsum(all but the last))` a sum of what comes before, and
`cumsum(x * mask)` needs no product in memory. The functions here are what the graph then calls; they compute the same,
so a graph stays a program that can be run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch import Tensor

from autotriton.propose.compiler.templates.piece import hint, shape_of

aten = torch.ops.aten
Node = torch.fx.Node


class Pattern:
    """What a graph calls instead of the operators it was written with; named like an operator."""

    __module__ = __name__

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.function = function
        self.__name__ = self.__qualname__ = function.__name__

    def __call__(self, *args: Any) -> Tensor:
        return self.function(*args)

    def __str__(self) -> str:
        return self.__name__


@Pattern
def reverse_cumsum(x: Tensor, dim: int) -> Tensor:
    return x.flip(dim).cumsum(dim).flip(dim)


@Pattern
def exclusive_cumsum(x: Tensor, dim: int) -> Tensor:
    before = x.narrow(dim, 0, x.shape[dim] - 1).cumsum(dim)
    return torch.cat([torch.zeros_like(x.narrow(dim, 0, 1)), before], dim)


@Pattern
def masked_cumsum(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return (x * mask).cumsum(dim)


def merge_scans(graph: torch.fx.Graph) -> int:
    """Rewrites the patterns in place, and says how many were found."""
    found = 0
    for node in list(graph.nodes):
        match = _reverse(node) or _exclusive(node) or _masked(node)
        if match is None:
            continue
        target, arguments = match
        with graph.inserting_before(node):
            scan = graph.call_function(target, arguments)
        # Without what the old operator remembers of its origin, which kernels are called after.
        scan.meta = {key: value for key, value in node.meta.items() if key != "torch_fn"}
        node.replace_all_uses_with(scan)
        if any(user.op == "output" for user in scan.users):
            # An exported program knows its outputs by name.
            graph.erase_node(node)
            scan.name = node.name
        found += 1
    if found:
        graph.eliminate_dead_code()
    return found


Match = tuple[Any, tuple[Any, ...]]


def _reverse(node: Node) -> Match | None:
    if node.target is not aten.flip.default:
        return None
    scan = _plain_cumsum(node.args[0])
    if scan is None or _target(scan.args[0]) is not aten.flip.default:
        return None
    inner: Any = scan.args[0]
    flips: list[Any] = [node, inner]
    dims = [[d % _rank(node) for d in flip.args[1]] for flip in flips]
    return (reverse_cumsum, (inner.args[0], _dim(scan))) if dims == [[_dim(scan)]] * 2 else None


def _exclusive(node: Node) -> Match | None:
    parts: Any = node.args[0] if node.target is aten.cat.default else ()
    if len(parts) != 2:
        return None
    zeros, rest = parts
    along: Any = node.args[1] if len(node.args) > 1 else 0
    scan, dim = _plain_cumsum(rest), along % _rank(node)
    if scan is None or _dim(scan) != dim or not _is_zeros(zeros) or shape_of(zeros)[dim] != 1:
        return None
    cut: Any = scan.args[0]
    if _target(cut) is not aten.slice.Tensor or cut.args[1] % _rank(node) != dim or _step(cut) != 1:
        return None
    whole = shape_of(cut.args[0])[dim]
    if hint(cut.args[2]) != 0 or shape_of(cut)[dim] != whole - 1 or zeros.meta["val"].dtype != node.meta["val"].dtype:
        return None
    return exclusive_cumsum, (cut.args[0], dim)


def _masked(node: Node) -> Match | None:
    scan = _plain_cumsum(node, alone=False)
    product: Any = scan.args[0] if scan is not None else None
    if scan is None or _target(product) is not aten.mul.Tensor or len(product.users) != 1:
        return None
    values = [arg.meta["val"] if isinstance(arg, Node) else None for arg in product.args]
    if values[0] is None or values[1] is None or values[0].shape != values[1].shape:
        return None
    masks = [arg for arg in product.args if arg.meta["val"].dtype == torch.bool]
    others = [arg for arg in product.args if arg not in masks]
    return (masked_cumsum, (others[0], masks[0], _dim(scan))) if len(masks) == len(others) == 1 else None


def _plain_cumsum(node: Any, alone: bool = True) -> Node | None:
    """The node as a running sum without a change of type, whose result (if `alone`) nobody else reads."""
    if _target(node) is not aten.cumsum.default or (alone and len(node.users) != 1):
        return None
    found: Node = node
    source: Any = found.args[0]
    return found if source.meta["val"].dtype == found.meta["val"].dtype else None


def _is_zeros(node: Any) -> bool:
    target = _target(node)
    if target in (aten.full.default, aten.full_like.default):
        return bool(node.args[1] == 0)
    return target in (aten.zeros.default, aten.zeros_like.default)


def _target(node: Any) -> Any:
    return node.target if isinstance(node, Node) and node.op == "call_function" else None


def _step(cut: Node) -> object:
    return cut.args[4] if len(cut.args) > 4 else 1


def _rank(node: Node) -> int:
    return int(node.meta["val"].dim())


def _dim(scan: Node) -> int:
    along: Any = scan.args[1]
    return int(along % _rank(scan))
