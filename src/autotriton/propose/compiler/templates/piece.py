"""What a kernel family is given and what it hands back.

A family writes one *piece* per operator: the kernels, and one wrapper function that computes sizes from its tensors,
allocates, launches and returns. What follows the operator element by element (bias, activation, residual, a cast) is
fused into its last kernel through the `Epilogue`, which is the planner's and the same for every family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch.fx

from autotriton.propose.compiler.templates.options import DEFAULT, Options

Setting = dict[str, int | str | bool]


@dataclass(frozen=True)
class Places:
    """What a family knows about its tile besides one index per dimension: it makes addresses short and loads wide."""

    image: str = ""
    """The first dimension's index as a scalar of 64 bits, to which `index[0]` has added `image_more`."""
    image_more: str = ""
    """What elements add to `image`; empty when the whole tile lies in one."""
    flat: str = ""
    """One index that counts through all dimensions behind the second; empty where the tile has none."""
    flat_size: str = ""
    """The kernel's name for the product of those dimensions."""
    leading: str = ""
    """One index that counts through the first `leading_dims` dimensions; empty where the tile has none."""
    leading_dims: int = 0
    steered: int = 0
    """The tile's dimensions, where the compiler has to be told how its lanes shall run (see `steered`)."""


NO_PLACES = Places()


def steered(offsets: str, dims: int = 2) -> str:
    """Offsets of a tile with one element per lane and lanes along the last dimension, whatever the compiler knows.

    Where nothing it knows makes neighbours in memory lie along one of two dimensions, Triton 3.6 lets lanes run along
    the first, 3.9 along the last; the wrong one was eight times slower. The hint claims pairs of neighbours, but at an
    alignment of one element, so that no access becomes wider than an element by it.
    Where one of several accesses could be wide (the aligned tap of a window), Triton lays all of them out for it, four
    elements to a lane; those that are not aligned then take four times as many steps.
    """
    if dims == 1:
        return f"tl.max_contiguous(tl.multiple_of({offsets}, 1), 1)"
    return f"tl.max_contiguous(tl.multiple_of({offsets}, (1, 1)), (1, 2))"


class Epilogue(Protocol):
    """The element-wise rest of a kernel, from the operator's own result to what is stored."""

    def formula(self, value: str) -> str:
        """What is stored, as a reader would write it, for the kernel's docstring: `gelu(acc + bias)`."""
        ...

    def operands(self) -> list[str]:
        """Parameters of the wrapper function for tensors only the epilogue reads, after the family's own."""
        ...

    def parameters(self) -> list[str]:
        """Kernel parameters, after the family's own, before its constexprs: `bias_ptr`, `out_ptr`, sizes, strides."""
        ...

    def arguments(self) -> list[str]:
        """What the wrapper passes for `parameters()`, in the same order."""
        ...

    def allocations(self) -> list[str]:
        """Statements of the wrapper that make the outputs. They may use the names the family gave its sizes."""
        ...

    def lines(self, value: str, index: Sequence[str], mask: str, places: Places = NO_PLACES) -> list[str]:
        """Kernel statements, not indented: loads, the fused formula, stores.

        `value` is the operator's result as a tile of fp32 (or int) values; `index` gives, for each dimension of the
        operator's output, an index expression that broadcasts against the tile; `mask` says which elements exist.
        """
        ...

    def returned(self) -> str:
        """What the wrapper returns."""
        ...


@dataclass(frozen=True)
class Site:
    """One operator of the graph, with what it is to be called and what follows it."""

    node: torch.fx.Node
    name: str
    """Of the wrapper and, with `_kernel` behind it, of the kernel: `linear_gelu`. Unique in the file."""
    epilogue: Epilogue
    sizes: tuple[str, ...]
    """The family's own names for the output's dimensions. Its wrapper assigns them before `allocations()`; its kernel
    takes those among its parameters that `parameters()` does not name already."""
    tf32: bool = False
    """The task permits TF32."""
    options: Options = DEFAULT


@dataclass(frozen=True)
class Written:
    """An argument as `forward` writes it: `self.conv.stride`."""

    text: str


@dataclass(frozen=True)
class Piece:
    """Kernels and the wrapper around them, as text."""

    name: str
    text: str
    operands: tuple[torch.fx.node.Argument | Written, ...]
    """The family's own arguments in the wrapper's order: nodes, or Python values written out. The planner appends those
    of the epilogue."""
    settings: tuple[Setting, ...] = ()
    """For `TILES[name]`: the alternatives, best guess first. Empty when nothing is to be chosen."""
    helpers: tuple[str, ...] = field(default_factory=tuple)
    """Definitions shared by several pieces; each distinct text is written once, before the pieces."""


class Family(Protocol):
    """Writes the pieces for one kind of operator. Each family's module holds `FAMILIES`: operator -> family."""

    def accepts(self, node: torch.fx.Node) -> bool:
        """Whether this node can be written; otherwise the task is not for this engine."""
        ...

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        """A name for each dimension of the output: `("N", "OC", "OH", "OW")`."""
        ...

    def render(self, site: Site) -> Piece: ...


def shape_of(node: torch.fx.Node) -> tuple[int, ...]:
    """Sizes as they were in the example; symbolic ones at their hint."""
    return tuple(hint(size) for size in node.meta["val"].shape)


def hint(size: object) -> int:
    symbol = getattr(size, "node", None)
    return int(symbol.hint) if symbol is not None else int(size)  # type: ignore[call-overload]


def node_at(argument: object) -> torch.fx.Node:
    """An argument that is known to be a node of the graph."""
    assert isinstance(argument, torch.fx.Node)
    return argument
