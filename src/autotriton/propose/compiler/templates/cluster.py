"""A cluster: operators that become one kernel. Element-wise ones around at most one family's operator, or around
reductions over the same axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.fx

from autotriton.propose.compiler.templates import gathers
from autotriton.propose.compiler.templates.axes import Axis, Dims, aligned, flat, refreshed, regrouped, viewed
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.options import DEFAULT, Options
from autotriton.propose.compiler.templates.piece import node_at, shape_of
from autotriton.propose.compiler.templates.views import is_view

CONSTANTS = frozenset(
    [
        "full",
        "scalar_tensor",
        "zeros",
        "ones",
        "full_like",
        "zeros_like",
        "ones_like",
        "new_full",
        "new_zeros",
        "new_ones",
    ]
)
_FEW_ROWS, _MANY_COLUMNS = 512, 16384


def is_constant(node: torch.fx.Node) -> bool:
    """A tensor filled with one number that is known now."""
    return node.op == "call_function" and name_of(node) in CONSTANTS and isinstance(fill_of(node), int | float | bool)


def fill_of(node: torch.fx.Node) -> object:
    name = name_of(node)
    if name.removesuffix("_like").removeprefix("new_") in ("zeros", "ones"):
        return 0 if "zeros" in name else 1
    return node.args[0] if name == "scalar_tensor" else node.args[1] if name == "full_like" else node.args[-1]


def tensor_inputs(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Tensors the node reads, each once."""
    found = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor | tuple | list)]
    return list(dict.fromkeys(found))


@dataclass(eq=False)
class Cluster:
    frame: Dims
    """Dims of the whole iteration space, as the first operator had it."""
    members: list[torch.fx.Node] = field(default_factory=list)
    dims: dict[torch.fx.Node, Dims] = field(default_factory=dict)
    _reduced: tuple[Axis, ...] = ()
    family: torch.fx.Node | None = None
    """The operator a kernel family writes; None for clusters of element-wise operators and reductions."""
    whole: bool = False
    """The family's operator returns a tuple or takes no epilogue."""
    options: Options = DEFAULT

    @property
    def reduced(self) -> tuple[Axis, ...]:
        return tuple(leaf for axis in self._reduced for leaf in axis.leaves())

    @reduced.setter
    def reduced(self, axes: tuple[Axis, ...]) -> None:
        self._reduced = axes

    @property
    def axes(self) -> tuple[Axis, ...]:
        return flat(self.frame)

    @property
    def kept(self) -> tuple[Axis, ...]:
        reduced = self.reduced
        return tuple(axis for axis in self.axes if axis not in reduced)

    @property
    def is_wide(self) -> bool:
        """Few results over many elements: one program per result would leave the GPU idle."""
        rows, columns = (math.prod(axis.size for axis in axes) for axes in (self.kept, self.reduced))
        return self.options.split_sums and rows < _FEW_ROWS and columns > _MANY_COLUMNS

    def add(self, node: torch.fx.Node, dims: Dims) -> None:
        self.members.append(node)
        self.dims[node] = dims

    def dims_of(self, node: torch.fx.Node) -> Dims | None:
        """Dims of a value computed in here, or of a view of one."""
        if node in self.dims:
            return refreshed(self.dims[node])
        if not is_view(node):
            return None
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        inner = self.dims_of(source)
        if inner is None:
            return None
        found = viewed(node, inner)
        if found is None and name_of(node) == "expand" and list(shape_of(node)) == self.frame_shape():
            frame = refreshed(self.frame)
            fits = all(not a or a == b for a, b in zip(aligned(inner, len(frame)), frame, strict=True))
            return frame if fits else None
        return found

    def frame_shape(self) -> list[int]:
        return [math.prod(axis.size for axis in axes) for axes in refreshed(self.frame)]

    def is_full(self, node: torch.fx.Node) -> bool:
        """Whether the value has one element per element of the frame."""
        return set(flat(self.dims[node])) == set(self.axes)

    def loads(self, member: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, Dims]]:
        """Tensors from outside that a member reads element by element, with the axes they run over."""
        yield from self.outside(member).values()

    def outside(self, member: torch.fx.Node) -> dict[torch.fx.Node, tuple[torch.fx.Node, Dims]]:
        """Operands from outside -> the tensor that is loaded for each, which may be what it is a view of."""
        found = {}
        for node in tensor_inputs(member):
            if is_constant(node) or self.dims_of(node) is not None or gathers.reads_freely(member, node):
                continue
            found[node] = _seen_through(node, self._load_dims(member, node))
        return found

    def _load_dims(self, member: torch.fx.Node, node: torch.fx.Node) -> Dims:
        if member is self.family:
            return ()
        space = refreshed(self.frame) if is_reduction(member) else gathers.space(member, node, self.dims_of(member))
        shape = shape_of(node)
        out = aligned(space, max(len(space), len(shape)))[len(space) - len(shape) :] if shape else ()
        return tuple(axes if size != 1 else () for axes, size in zip(out, shape, strict=True))


def _seen_through(node: torch.fx.Node, dims: Dims) -> tuple[torch.fx.Node, Dims]:
    """Past views that only regroup dimensions: a reader finds `bias` easier than `bias.view(1, 8, 8, 1)`."""
    while is_view(node) and name_of(node) in ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze"):
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        inner = regrouped(refreshed(dims), shape_of(source))
        if inner is None:
            break
        node, dims = source, inner
    return node, dims


REDUCTIONS = frozenset(
    ["sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var_mean", "any", "all"]
)


def is_reduction(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not str(node.target).startswith("aten."):
        return False
    name = name_of(node)
    if name in ("max", "min"):
        return len(tensor_inputs(node)) == 1
    return name in REDUCTIONS


def reduced_dims(node: torch.fx.Node) -> tuple[tuple[int, ...], bool]:
    """Dimensions a reduction runs over, and whether it keeps them."""
    rank = len(shape_of(node_at(node.args[0])))
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if name_of(node) == "var_mean" and str(node.target).endswith(".default"):
        given = None
    dims = list(range(rank)) if given is None or given == [] else given if isinstance(given, list | tuple) else [given]
    place = 3 if str(node.target) == "aten.var_mean.dim" else 2
    keep = node.args[place] if len(node.args) > place else node.kwargs.get("keepdim", False)
    return tuple(sorted(int(d) % max(rank, 1) for d in dims)) if rank else (), bool(keep)  # type: ignore[arg-type]
