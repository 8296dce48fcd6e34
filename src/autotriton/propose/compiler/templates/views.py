"""Views as Python: what torch does for free on a tensor that exists already."""

from __future__ import annotations

from typing import Any

import torch.fx

from autotriton.propose.compiler.templates.axes import Axis, fresh, regrouped
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.piece import hint, node_at, shape_of

VIEWS = frozenset(
    [
        "view",
        "reshape",
        "_unsafe_view",
        "permute",
        "transpose",
        "t",
        "unsqueeze",
        "squeeze",
        "expand",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "diagonal",
        "unfold",
        "as_strided",
        "alias",
        "detach",
        "narrow",
        "movedim",
    ]
)


def is_view(node: torch.fx.Node) -> bool:
    """A view, or one of the parts of a split."""
    if node.op != "call_function":
        return False
    if str(node.target) == "<built-in function getitem>":
        source = node.args[0]
        return isinstance(source, torch.fx.Node) and name_of(source) in ("split", "split_with_sizes", "chunk", "unbind")
    return str(node.target).startswith("aten.") and name_of(node) in VIEWS


def base_of(node: torch.fx.Node) -> torch.fx.Node:
    """The value a chain of views looks at."""
    while is_view(node):
        node = node_at(node.args[0])
    return node


def expression(node: torch.fx.Node, of: str, text: Any, like: str = "") -> str:
    """`x.view(n, -1)`: the view of the tensor called `of`. `text` writes out an argument: number, symbol or list;
    `like` names a tensor that has the view's shape.
    """
    name = name_of(node)
    args = [text(arg) for arg in node.args[1:]]
    if str(node.target) == "<built-in function getitem>":
        return f"{of}[{node.args[1]}]"
    if name in ("view", "reshape", "_unsafe_view"):
        return f"{of}.reshape({(like and f'{like}.shape') or _shape(node, of) or _bare(args[0]) or '()'})"
    if name in ("permute", "expand"):
        return f"{of}.{name}({_bare(args[0]) or '()'})"
    if name == "slice":
        return _slice(node, of, text)
    if name in ("alias", "detach"):
        return of
    if name == "squeeze":
        return f"{of}.squeeze({'(' + _bare(args[0]) + ',)' if args and args[0].startswith('[') else ', '.join(args)})"
    if name in ("split", "split_with_sizes"):
        sizes = [[hint(size) for size in part.shape] for part in node.meta["val"]]
        even = all(size == sizes[0] for size in sizes)
        return f"{of}.chunk({', '.join([str(len(sizes)), *args[1:]])})" if even else f"{of}.split({', '.join(args)})"
    if name == "as_strided":
        return f"torch.as_strided({', '.join([of, *args])})"
    return f"{of}.{name}({', '.join(args)})"


def _bare(listed: str) -> str:
    """`x.shape[0], 4` of `[x.shape[0], 4]`."""
    return listed[1:-1] if listed.startswith("[") and listed.endswith("]") else listed


def _shape(node: torch.fx.Node, of: str) -> str:
    """The new shape in terms of the old one: kept and merged dimensions are read off, the outer part of a split one is
    what the program says, the inner part the rest.
    """
    old = fresh(node_at(node.args[0]))
    new = regrouped(old, shape_of(node))
    if new is None:
        return ""
    texts: dict[Axis, str] = {}
    for d, axes in enumerate(old):
        for axis in axes:
            texts |= _parts(axis, f"{of}.shape[{d}]")
    return ", ".join(" * ".join(texts[axis] for axis in axes) or "1" for axes in new)


def _parts(axis: Axis, text: str) -> dict[Axis, str]:
    """How each part of an axis is read off the size of the whole."""
    if axis.parts is None:
        return {axis: text}
    outer, inner = axis.parts
    return _parts(outer, str(outer.size)) | _parts(inner, f"({text} // {outer.size})")


def _slice(node: torch.fx.Node, of: str, text: Any) -> str:
    dim, start, end, step = _padded(node)
    first = "" if start in (0, None) else text(start)
    last = "" if end is None or (isinstance(end, int) and end >= 2**62) else text(end)
    pace = "" if step in (1, None) else f":{text(step)}"
    if not (first or last or pace):
        return of
    return f"{of}[{':, ' * dim}{first}:{last}{pace}]"


def _padded(node: torch.fx.Node) -> list[Any]:
    given: list[Any] = [*node.args[1:], *[None] * (5 - len(node.args))]
    dim = given[0] or 0
    rank = len(node.meta["val"].shape)
    return [dim % rank, *given[1:]]
