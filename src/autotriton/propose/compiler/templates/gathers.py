"""Operators that read a tensor at computed places: embedding, gather, padding, concatenation, flips, ranges.

They are element-wise in their result, so they fuse like any other; the tensor they read is loaded where the index says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.fx

from autotriton.propose.compiler.templates.axes import Dims
from autotriton.propose.compiler.templates.expressions import literal, name_of
from autotriton.propose.compiler.templates.piece import hint, node_at, shape_of
from autotriton.propose.compiler.templates.sizes import Unreadable


class Reader(Protocol):
    """How a kernel reads a tensor at computed places."""

    def load(self, table: torch.fx.Node, index: Sequence[str], mask: str) -> str:
        """The load as text; `mask` is a further one, or empty."""
        ...

    def size(self, table: torch.fx.Node, dim: int) -> str:
        """The name of the kernel parameter that holds a size of the tensor."""
        ...


def is_gather(node: torch.fx.Node) -> bool:
    return (
        node.op == "call_function" and str(node.target).startswith("aten.") and name_of(node) in _RENDER and _fits(node)
    )


def reads_freely(member: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether `member` reads `node` at places of its own rather than at its own position."""
    return is_gather(member) and node in tables(member)


def tables(member: torch.fx.Node) -> list[torch.fx.Node]:
    """Tensors that must exist as a whole before `member` can read them."""
    name = name_of(member)
    if name == "cat":
        return [node_at(part) for part in _listed(member.args[0])]
    if name in ("arange", "eye", "select_scatter_", "iota"):
        return []
    if name in ("slice_scatter", "select_scatter"):
        return [node_at(member.args[1])]
    return [node_at(member.args[0])]


def space(member: torch.fx.Node, node: torch.fx.Node, dims: Dims | None) -> Dims:
    """The part of the member's dims that an index tensor runs over."""
    assert dims is not None
    if name_of(member) == "embedding":
        return dims[:-1]
    if name_of(member) == "index_select":
        dim = int(member.args[1]) % len(dims)  # type: ignore[arg-type]
        return dims[dim : dim + 1]
    if name_of(member) == "index":
        first, count = index_place(member)
        return dims[first : first + count]
    return dims


def render(member: torch.fx.Node, index: Sequence[str], operands: dict[torch.fx.Node, str], read: Reader) -> str:
    """The member's value as an expression. `index` holds its own position, one expression per dimension."""
    return _RENDER[name_of(member)](member, index, operands, read)


def _fits(node: torch.fx.Node) -> bool:
    name = name_of(node)
    if name == "index":
        places, indices = _indices(node)
        adjacent = places == list(range(places[0], places[0] + len(places)))
        return adjacent and all(i.meta["val"].dtype in (torch.int64, torch.int32) for i in indices)
    return True


def _listed(argument: object) -> Sequence[object]:
    assert isinstance(argument, list | tuple)
    return argument


def _indices(node: torch.fx.Node) -> tuple[list[int], list[torch.fx.Node]]:
    """Dimensions `aten.index` indexes, and with what."""
    found = [(d, node_at(i)) for d, i in enumerate(_listed(node.args[1])) if i is not None]
    return [d for d, _ in found], [i for _, i in found]


def index_place(node: torch.fx.Node) -> tuple[int, int]:
    """First dimension of the result the index tensors' shape takes, and how many dimensions that are."""
    places, indices = _indices(node)
    return places[0], max(len(shape_of(i)) for i in indices)


def _wrapped(index: str, size: str) -> str:
    """Negative indices count from the end."""
    return f"tl.where({index} < 0, {index} + {size}, {index})"


def _embedding(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    return read.load(node.args[0], [operands[node.args[1]], index[-1]], "")


def _gather(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    places = list(index)
    if places:
        places[int(node.args[1]) % len(places)] = operands[node.args[2]]
    return read.load(node.args[0], places, "")


def _index_select(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    places = list(index)
    places[int(node.args[1]) % len(places)] = operands[node.args[2]]
    return read.load(node.args[0], places, "")


def _index(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    first, count = index_place(node)
    chosen = [(d, i) for d, i in enumerate(node.args[1]) if i is not None]
    middle = [_wrapped(operands[i], read.size(node.args[0], d)) for d, i in chosen]
    return read.load(node.args[0], [*index[:first], *middle, *index[first + count :]], "")


def _pad(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    source, pads = node.args[0], list(node.args[1])
    value = node.args[2] if len(node.args) > 2 else 0
    shape = shape_of(source)
    places, inside = list(index), []
    for k in range(len(pads) // 2):
        d, before, after = len(shape) - 1 - k, pads[2 * k], pads[2 * k + 1]
        if before:
            places[d] = f"({index[d]} - {before})"
        if before > 0:
            inside.append(f"({index[d]} >= {before})")
        if after > 0:
            inside.append(f"({places[d]} < {read.size(source, d)})")
    if not inside:
        return read.load(source, places, "")
    mask = " & ".join(inside)
    return f"tl.where({mask}, {read.load(source, places, mask)}, {literal(value)})"


def _cat(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    dim = int(node.args[1]) % len(index) if len(node.args) > 1 else 0
    text, start = "", ""
    parts = [part for part in node.args[0] if shape_of(part) != (0,)]
    for number, part in enumerate(parts):
        end = " + ".join(filter(None, (start, read.size(part, dim))))
        places = list(index)
        places[dim] = f"({index[dim]} - ({start}))" if start else index[dim]
        mask = f"({index[dim]} < {end})" if not start else f"({index[dim]} >= {start}) & ({index[dim]} < {end})"
        value = read.load(part, places, mask)
        text = value if number == 0 else f"tl.where({index[dim]} >= {start}, {value}, {text})"
        start = end
    return text


def _flip(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    places = list(index)
    for d in node.args[1]:
        places[d] = f"({read.size(node.args[0], d % len(index))} - 1 - {index[d]})"
    return read.load(node.args[0], places, "")


def _repeat(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    shape = shape_of(node.args[0])
    own, times = (values[len(index) - len(shape) :] for values in (index, node.args[1]))
    places = []
    for d, (i, size, count) in enumerate(zip(own, shape, times, strict=True)):
        places.append("0" if size == 1 else i if count == 1 else f"({i} % {read.size(node.args[0], d)})")
    return read.load(node.args[0], places, "")


def _arange(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    args = list(node.args)
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    place = "tl.full((), 0, tl.int64)" if index[0] == "0" else index[0]  # of one element
    text = place if step == 1 else f"({place} * {_written(step, operands)})"
    text = text if start == 0 else f"({text} + {_written(start, operands)})"
    kind = "tl.float32" if node.meta["val"].dtype.is_floating_point else "tl.int64"
    return f"({text}).to({kind})"


def _scatter(node: Any, index: Sequence[str], operands: dict[Any, str], read: Reader) -> str:
    """`slice_scatter` and `select_scatter`: one tensor with a part of it replaced."""
    dim = int(node.args[2]) % len(index) if len(node.args) > 2 else 0
    places = list(index)
    if name_of(node) == "select_scatter":
        chosen = _bound(node.args[3], node, dim, operands)
        mask = f"({index[dim]} == {chosen})"
        del places[dim]
    else:
        step = node.args[5] if len(node.args) > 5 else 1
        begin = _bound(node.args[3] if len(node.args) > 3 else None, node, dim, operands)
        # The part that is written knows its own length, whatever the size of the whole is.
        stop = f"{begin} + {read.size(node.args[1], dim)}" + (f" * {step}" if step != 1 else "")
        mask = f"({index[dim]} >= {begin}) & ({index[dim]} < {stop})"
        places[dim] = f"({index[dim]} - {begin})"
        if step != 1:
            mask += f" & ({places[dim]} % {step} == 0)"
            places[dim] = f"({places[dim]} // {step})"
    return f"tl.where({mask}, {read.load(node.args[1], places, mask)}, {operands[node.args[0]]})"


def _bound(value: Any, node: torch.fx.Node, dim: int, operands: dict[Any, str]) -> str:
    """Where a replaced part begins."""
    if isinstance(value, torch.fx.Node):
        return operands[value]
    size = node.meta["val"].shape[dim]
    if (value or 0) < 0 and not isinstance(size, int):
        raise Unreadable(f"a place counted from the end of {hint(size)}")
    return str(value or 0 if (value or 0) >= 0 else max(value + size, 0))


def _written(value: Any, operands: dict[Any, str]) -> str:
    return operands[value] if isinstance(value, torch.fx.Node) else literal(value)


_RENDER: dict[str, Callable[..., str]] = {
    "embedding": _embedding,
    "gather": _gather,
    "index_select": _index_select,
    "index": _index,
    "constant_pad_nd": _pad,
    "cat": _cat,
    "flip": _flip,
    "repeat": _repeat,
    "arange": _arange,
    "slice_scatter": _scatter,
    "select_scatter": _scatter,
}
