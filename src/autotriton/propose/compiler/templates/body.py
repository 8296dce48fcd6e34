"""Statements of a kernel: loads, one line per operator, stores. Shared by all kinds of kernels.

Tiles have two dimensions, rows and columns; what runs over one of them only has size 1 in the other and is broadcast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates import expressions, gathers
from autotriton.propose.compiler.templates.access import (
    Access,
    Group,
    access,
    offset,
    offset_parts,
    stored,
    stride_expression,
    stride_name,
)
from autotriton.propose.compiler.templates.axes import Axis, Dims, flat
from autotriton.propose.compiler.templates.cluster import Cluster, fill_of, is_constant
from autotriton.propose.compiler.templates.gather_sizes import sizes
from autotriton.propose.compiler.templates.names import Names
from autotriton.propose.compiler.templates.piece import steered
from autotriton.propose.compiler.templates.views import base_of

_SIZES = {"n_rows", "n_cols", "n_elements", "n_parts", "first", "start", "stop", "acc"}
MaskOf = Callable[[set[Axis]], str]
"""The mask for a load or store that runs over these axes; empty when none is needed."""


class Operands:
    """Tensors a kernel reads, by the name of the wrapper's parameter."""

    def __init__(self, cluster: Cluster, names: Names) -> None:
        self.cluster, self.names = cluster, names
        self.loads: dict[tuple[torch.fx.Node, Dims], Access] = {}
        self.tables: dict[torch.fx.Node, str] = {}
        self.values: list[tuple[str, torch.Tensor, Dims]] = []
        self.walked: list[tuple[str, torch.Tensor, Dims]] = []
        """`values`, and again with its other dims what is read along several: `x[:, None] * x[None, :]`."""
        self.nodes: list[torch.fx.Node] = []
        for member in cluster.members:
            if member is cluster.family:
                continue
            for node, dims in cluster.loads(member):
                self._add(node, dims)
            for table in gathers.tables(member) if gathers.is_gather(member) else ():
                self.tables[table] = self._named(table, ())

    def _named(self, node: torch.fx.Node, dims: Dims) -> str:
        if node not in self.nodes:
            self.nodes.append(node)
            name = self.names.of(node)
            rank = len(node.meta["val"].shape)
            self.values.append((name, node.meta["val"], dims or ((),) * rank))
            self.walked.append(self.values[-1])
        return self.names.of(node)

    def _add(self, node: torch.fx.Node, dims: Dims) -> None:
        if (node, dims) not in self.loads:
            name = self._named(node, dims)
            self.loads[(node, dims)] = access(name, node.meta["val"], dims, natural=True)
            self.walked.append((name, node.meta["val"], dims))

    def witness(self, node: torch.fx.Node) -> None:
        """A tensor that is not read: a range of numbers is made on its device."""
        self._named(node, ())

    def computed(self) -> dict[Axis, str]:
        """Sizes of what is read at computed places, for axes that no operand read in place runs over."""
        found: dict[Axis, str] = {}
        for member in self.cluster.members:
            if member is not self.cluster.family and gathers.is_gather(member):
                dims = self.cluster.dims_of(member) or ()
                for axes, text in zip(dims, sizes(member, self.names.of), strict=True):
                    if text and len(axes) == 1:
                        found.setdefault(axes[0], text)
        return found

    def numbers(self) -> list[torch.fx.Node]:
        """Symbolic numbers the members use: sizes known only at run time."""
        found = []
        for member in self.cluster.members:
            if member is not self.cluster.family:
                found += [
                    n for n in member.all_input_nodes if not isinstance(n.meta.get("val"), torch.Tensor | tuple | list)
                ]
        return list(dict.fromkeys(found))


class Body:
    """Writes members as statements, in the order asked for."""

    def __init__(
        self,
        cluster: Cluster,
        operands: Operands,
        groups: Sequence[Group],
        mask_of: MaskOf,
        rows: Sequence[Group] = (),
        row: str = "",
        single: str = "",
    ) -> None:
        """`single` is an index that is 0 for the only element of a dimension without axes, and spans the tile."""
        self.single = single
        self.cluster, self.operands, self.groups = cluster, operands, groups
        self.mask_of, self.rows, self.row = mask_of, rows, row
        self.columns = [group for group in groups if group not in rows] if row else []
        self.column = ("col", "n_cols")
        self.steered = 0
        self._hinted: dict[str, str] = {}
        self._axes: set[Axis] = set()
        """Of the member that is being written: a value of a row is there before its columns are."""
        self.values: dict[torch.fx.Node, str] = {}
        self.lines: list[str] = []
        self.hoisted = False
        """Loads without a column are made before the loop, in `row_lines`, and shared through `row_loads`."""
        self.row_loads: dict[tuple[torch.fx.Node, Dims], str] = {}
        self.row_lines: list[str] = []
        self._loaded: dict[tuple[torch.fx.Node, Dims], str] = {}
        numbers = {operands.names.of(node) for node in operands.numbers()}
        self.names = Names(operands.names.sources, numbers | _SIZES)

    def member(self, node: torch.fx.Node) -> None:
        """The statement that computes one element-wise member."""
        given = self._inputs(node)
        if gathers.is_gather(node):
            dims = self.cluster.dims_of(node)
            assert dims is not None
            self._axes = {axis for axes in dims for axis in axes}
            text = gathers.render(node, [self.index(axes) for axes in dims], given, self)
        else:
            text = expressions.render(node, given)
        self.values[node] = self.assign(node, text)

    def assign(self, node: torch.fx.Node, text: str) -> str:
        if text in self.names.taken and text.isidentifier():
            return text  # a copy: the same value under another name
        name = self.names.unique(self.names.plain(node))
        self.lines.append(f"{name} = {text}")
        return name

    def value(self, node: torch.fx.Node, dims: Dims) -> str:
        """The value of an operand: computed before, constant, or loaded now."""
        base = base_of(node)
        if is_constant(base):
            return expressions.literal(fill_of(base))
        if self.cluster.dims_of(node) is not None and base in self.values:
            return self.values[base]
        return self._load(node, dims)

    def _inputs(self, node: torch.fx.Node) -> dict[torch.fx.Node, str]:
        outside = self.cluster.outside(node)
        free = gathers.tables(node) if gathers.is_gather(node) else []
        given = {}
        for each in node.all_input_nodes:
            if each in free:
                continue
            if not isinstance(each.meta.get("val"), torch.Tensor):
                given[each] = self.operands.names.of(each)
            elif is_constant(base_of(each)):
                given[each] = f"tl.full((), {expressions.literal(fill_of(base_of(each)))}, {_type(each)})"
            else:
                given[each] = self.value(*outside.get(each, (each, ())))
        return given

    def _load(self, node: torch.fx.Node, dims: Dims) -> str:
        key = (node, dims)
        if key in self.row_loads:
            return self.row_loads[key]
        if key not in self._loaded:
            each = self.operands.loads[key]
            axes = {axis for axis, _ in each.steps}
            if self.hoisted and not any(axes & set(group.axes) for group in self.columns or self.groups[-1:]):
                return self._load_row(key, each, axes)
            # What is one number for the whole tile exists, and takes no mask of a tile.
            _, inner = offset_parts(each, self.groups, self.rows, self.row, self.columns, self.column)
            mask = self.mask_of(axes) if inner or not axes else ""
            text = f"tl.load({self._address(each)}{_masked(mask)})"
            name = self.names.unique(each.name)
            self.lines.append(f"{name} = {text}{_upcast(node)}")
            self._loaded[key] = name
        return self._loaded[key]

    def _load_row(self, key: tuple[torch.fx.Node, Dims], each: Access, axes: set[Axis]) -> str:
        place = offset(each, self.groups, self.rows, self.row)
        name = self.row_loads[key] = self.names.unique(each.name)
        text = f"tl.load({each.name}_ptr{f' + {place}' if place else ''}{_masked(self.mask_of(axes))})"
        self.row_lines.append(f"{name} = {text}{_upcast(key[0])}")
        return name

    def size(self, table: torch.fx.Node, dim: int) -> str:
        """`gathers.Reader`: the parameter that holds a size of a tensor read at computed places."""
        return f"{self.operands.tables[table]}_size_{dim}"

    def load(self, table: torch.fx.Node, index: Sequence[str], mask: str) -> str:
        """`gathers.Reader`: a tensor read at computed places."""
        name = self.operands.tables[table]
        value = table.meta["val"]
        last = value.dim() - 1
        terms = [
            place if d == last and value.stride(d) == 1 else f"{place} * {name}_stride_{d}"
            for d, place in enumerate(index)
            if place != "0"
        ]
        masks = " & ".join(filter(None, (self.mask_of(self._axes), mask)))
        place = " + ".join([f"{name}_ptr", *terms])
        if not any(group.index and group.index in term for term in terms for group in self.groups):
            # Perhaps a single element, for which Triton takes no mask of a block.
            if not _read_from_tensors(terms, name):
                one = f"tl.load({place}){_upcast(table)}"
                return f"tl.where({masks}, {one}, 0)" if mask else one
            place = f"{place} + tl.where({masks}, 0, 0)" if masks else place
        return f"tl.load({place}{_masked(masks, mask != '')}){_upcast(table)}"

    def index(self, axes: Sequence[Axis]) -> str:
        """The position along one dimension."""
        found = [group for group in self.groups if set(group.axes) <= set(axes)]
        if not found:
            return "0"
        text = found[0].index
        for group in found[1:]:
            text = f"({text} * {group.size_name} + {group.index})"
        return text

    def stores(self, outputs: Sequence[tuple[torch.fx.Node, str]]) -> None:
        for node, name in outputs:
            self.store(node, name)

    def store(self, node: torch.fx.Node, name: str) -> None:
        dims = self.cluster.dims[node]
        each = stored(name, node.meta["val"], dims)
        mask = self.mask_of({axis for axis, _ in each.steps})
        if self.single == "row":
            mask = "mask" if mask else "row_mask"
        elif self.single:
            mask = self.mask_of(set(self.cluster.axes) or {Axis(1, True)})
        value = self.values[node]
        self.lines.append(f"tl.store({self._address(each, self.single)}, {value}{_masked(mask)})")

    def _address(self, each: Access, single: str = "") -> str:
        scalar, inner = offset_parts(each, self.groups, self.rows, self.row, self.columns, self.column)
        spans_lanes = self.steered == 1 or "[None, :]" in inner  # of one column there are no neighbours, and no layout
        if self.steered and inner and spans_lanes and {axis for axis, _ in each.steps} >= set(self.cluster.axes):
            inner = self._steered(inner)
        return " + ".join(filter(None, (f"{each.name}_ptr", scalar, inner, single)))

    def _steered(self, offsets: str) -> str:
        if offsets not in self._hinted:
            name = self._hinted[offsets] = self.names.unique("elements")
            self.lines.append("# Neighbours in memory lie along the last dimension: one element per lane there.")
            self.lines.append(f"{name} = {steered(offsets, self.steered)}")
        return self._hinted[offsets]


def strides(operands: Operands, groups: Sequence[Group], body_text: str) -> list[tuple[str, str]]:
    """Kernel parameters for strides that are used, with what the wrapper passes."""
    found: dict[str, str] = {}
    for each in operands.loads.values():
        for group in groups:
            if not each.dense and group.axes[-1] in each.places:
                found[stride_name(each, group)] = stride_expression(each, group)
    for table, name in operands.tables.items():
        for d in range(table.meta["val"].dim()):
            found[f"{name}_stride_{d}"] = f"{name}.stride({d})"
            found[f"{name}_size_{d}"] = f"{name}.shape[{d}]"
    used = set(re.findall(r"\w+", body_text))  # once: the text of a stack of many tensors is long
    return [(name, text) for name, text in found.items() if name in used]


def axes_apart(cluster: Cluster) -> set[Axis]:
    """Axes whose own index some member asks for."""
    found: set[Axis] = set()
    for member in cluster.members:
        if member is not cluster.family and gathers.is_gather(member):
            found |= set(flat(cluster.dims_of(member) or ()))
    return found


def _type(node: torch.fx.Node) -> str:
    return expressions.compute_type(node.meta["val"].dtype)


def _read_from_tensors(terms: Sequence[str], table: str) -> bool:
    """Places hold more than sizes and strides of the table: values that were loaded, one or a block of them."""
    names = re.findall(r"[A-Za-z_]\w*", " ".join(terms))
    return any(not re.fullmatch(rf"{table}_(?:size|stride)_\d+|tl|where", name) for name in names)


def _masked(mask: str, other: bool = False) -> str:
    return (f", mask={mask}" + (", other=0" if other else "")) if mask else ""


def _upcast(node: torch.fx.Node) -> str:
    return ".to(tl.float32)" if node.meta["val"].dtype in (torch.float16, torch.bfloat16) else ""
