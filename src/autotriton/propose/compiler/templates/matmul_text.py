"""Text that all kernels for products share: sizes and strides in the wrapper, indices and the addend in the kernel."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from autotriton.propose.compiler.templates.matmul_contraction import Contraction, Operand
from autotriton.propose.compiler.templates.piece import Places, Site

ACCUMULATOR = {torch.float64: "tl.float64"}
"""Type of sums by type of operands; fp32 for all others."""
WIDTH = 110
"""Of emitted lines."""


@dataclass(frozen=True)
class Tile:
    """How a kernel spells the indices of the tile it has computed. Each is a tensor, none a scalar."""

    batch: str = "batches"
    rows: str = "rows[:, None]"
    cols: str = "cols[None, :]"
    mask: str = "mask"


@dataclass(frozen=True)
class Strided:
    """An operand as a kernel reads it: strides as parameters, and the wrapper's expressions for them."""

    operand: Operand
    statement: str | None
    """Of the wrapper, where several dimensions have to become one."""
    strides: dict[str, str]
    """Axis (a batch dimension, `row`, `k` or `col`) -> expression."""

    @property
    def pointer(self) -> str:
        return f"{self.operand.name}_ptr"

    def parameter(self, axis: str) -> str:
        return f"{self.operand.name}_{axis.lower()}_stride"

    def parameters(self) -> list[str]:
        return [self.parameter(axis) for axis in self.strides]

    def arguments(self) -> list[str]:
        return list(self.strides.values())

    def origin(self, batch: tuple[str, ...]) -> list[str]:
        """Moves the pointer to the matrix of this program's batch."""
        terms = [
            f"{index} * {self.parameter(dim)}"
            for dim, index in zip(batch, unravelled("batch", batch), strict=True)
            if dim in self.operand.dims
        ]
        return [f"{self.pointer} += {' + '.join(terms)}"] if terms else []


def with_free_names(product: Contraction, site: Site) -> Contraction:
    """The right operand and the addend renamed where the epilogue has a tensor of that name; `x` is never taken."""
    taken = {"out", *site.epilogue.operands(), *(name.removesuffix("_ptr") for name in site.epilogue.parameters())}

    def free(name: str) -> str:
        while name in taken:
            name = f"own_{name}"
        return name

    product = replace(product, right=replace(product.right, name=free(product.right.name)))
    if product.addend is not None:
        product = replace(product, addend=replace(product.addend, name=free(product.addend.name)))
    return product


def strided(product: Contraction, operand: Operand, extent: str, axis: str) -> Strided:
    """`extent` is `M` (axis `row`) for the left operand and `N` (axis `col`) for the right one."""
    own = product.rows if axis == "row" else product.cols
    batch = tuple(dim for dim in product.batch if dim in operand.dims)
    statement, axes = None, {dim: index for index, dim in enumerate(operand.dims) if dim is not None}
    if len(own) > 1 or len(product.inner) > 1:
        statement = _merged(operand, batch, own, product.inner, extent)
        axes = {dim: index for index, dim in enumerate(batch)}
        axes |= dict.fromkeys(own, len(batch)) | dict.fromkeys(product.inner, len(batch) + 1)
    groups = {**{dim: (dim,) for dim in batch}, axis: own, "k": product.inner}
    strides = {name: f"{operand.name}.stride({axes[dims[0]]})" if dims else "0" for name, dims in groups.items()}
    return Strided(operand, statement, strides)


def _merged(operand: Operand, batch: tuple[str, ...], own: tuple[str, ...], inner: tuple[str, ...], extent: str) -> str:
    """`x = x.permute(...).reshape(batch..., M, K)`: a view wherever the layout allows one."""
    broadcast = [axis for axis, dim in enumerate(operand.dims) if dim is None]
    order = [*broadcast, *(operand.dims.index(dim) for dim in (*batch, *own, *inner))]
    permuted = "" if order == sorted(order) else f".permute({', '.join(map(str, order))})"
    return f"{operand.name} = {operand.name}{permuted}.reshape({', '.join([*batch, extent, 'K'])})"


def size_lines(product: Contraction) -> list[str]:
    """Statements of the wrapper that name every dimension, then M, N and K."""
    lines: list[str] = []
    known: set[str] = set()
    for operand in (product.left, product.right):
        names = [dim for dim in operand.dims if dim is not None and dim not in known]
        if len(names) == len(operand.dims) > 1:
            lines.append(f"{', '.join(names)} = {operand.name}.shape")
        else:
            lines += [f"{dim} = {operand.name}.shape[{operand.dims.index(dim)}]" for dim in names]
        known |= set(names)
    lines += [f"{dim} = 1" for dim in product.batch if dim not in known]
    for extent, dims in (("M", product.rows), ("N", product.cols), ("K", product.inner)):
        if dims != (extent,):
            lines.append(f"{extent} = {' * '.join(dims) or '1'}")
    return lines


def used_sizes(product: Contraction, site: Site, body: Sequence[str]) -> list[str]:
    """Sizes a kernel's body uses and that the epilogue does not pass already."""
    words = set(re.findall(r"\w+", "\n".join(body)))
    given = set(site.epilogue.parameters())
    names = dict.fromkeys(("M", "N", "K", *product.batch, *product.rows, *product.cols))
    return [name for name in names if name in words and name not in given]


def unravelled(flat: str, dims: Sequence[str]) -> list[str]:
    """Index of each dimension out of the flat index over all of them."""
    indices = []
    for place in range(len(dims)):
        inner = " * ".join(dims[place + 1 :])
        index = f"{flat} // ({inner})" if place + 2 < len(dims) else f"{flat} // {inner}" if inner else flat
        indices.append(f"{index} % {dims[place]}" if place else index)
    return indices if len(dims) > 1 else [flat] * len(dims)


def output_index(product: Contraction, tile: Tile) -> list[str]:
    """For each dimension of the output, the index of the tile's elements."""
    found: dict[str, str] = {}
    for flat, dims in ((tile.batch, product.batch), (tile.rows, product.rows), (tile.cols, product.cols)):
        found |= dict(zip(dims, unravelled(flat, dims), strict=True))
    return [found[dim] for dim in product.output]


def addend_parameters(product: Contraction) -> list[str]:
    addend = product.addend
    if addend is None or addend.per_column:
        return []
    return [f"{addend.name}_{dim.lower()}_stride" for dim in product.output]


def addend_arguments(product: Contraction) -> list[str]:
    addend = product.addend
    if addend is None or addend.per_column:
        return []
    return [f"{addend.name}.stride({axis})" for axis in range(len(product.output))]


def addend_statement(product: Contraction) -> list[str]:
    addend = product.addend
    if addend is None or addend.per_column:
        return []
    return [f"{addend.name} = {addend.name}.expand({', '.join(product.output)})"]


def finishing_lines(product: Contraction, site: Site, tile: Tile) -> list[str]:
    """From the finished sum `acc` to the stores: alpha, the addend, the epilogue."""
    lines = [] if product.alpha == 1 else [f"acc = acc * {product.alpha!r}"]
    addend = product.addend
    if addend is not None and addend.per_column:
        lines.append(f"acc += tl.load({addend.name}_ptr + {tile.cols}, mask={tile.cols} < N, other=0.0)")
    elif addend is not None:
        terms = [
            f"({index}) * {stride}"
            for index, stride in zip(output_index(product, tile), addend_parameters(product), strict=True)
        ]
        place = " + ".join([f"{addend.name}_ptr", *terms])
        factor = "" if addend.beta == 1 else f"{addend.beta!r} * "
        lines.append(f"acc += {factor}tl.load({place}, mask={tile.mask}, other=0.0).to(acc.dtype)")
    if not product.output:  # a single number
        return [*lines, "acc = tl.sum(acc, axis=0)", *site.epilogue.lines("acc", [], "")]
    return lines + site.epilogue.lines("acc", output_index(product, tile), tile.mask, _places(product, tile))


def _places(product: Contraction, tile: Tile) -> Places:
    """Dimensions that the kernel counts through with one index need not be taken apart where they stay together."""
    for flat, dims in ((tile.batch, product.batch), (tile.rows, product.rows)):
        if len(dims) > 1 and product.output[: len(dims)] == dims:
            return Places(leading=flat, leading_dims=len(dims))
    return Places()


def formula(product: Contraction, site: Site) -> str:
    """What the kernel stores, for its docstring."""
    text = product.formula if product.alpha == 1 else f"{product.alpha!r} * ({product.formula})"
    if product.addend is not None:
        factor = "" if product.addend.beta == 1 else f"{product.addend.beta!r} * "
        text = f"{text} + {factor}{product.addend.name}"
    return site.epilogue.formula(text)


def own_operands(product: Contraction) -> tuple[torch.fx.Node, ...]:
    extra = () if product.addend is None else (product.addend.node,)
    return (product.left.node, product.right.node, *extra)


def own_names(product: Contraction) -> list[str]:
    extra = [] if product.addend is None else [product.addend.name]
    return [product.left.name, product.right.name, *extra]


def indented(lines: Sequence[str], depth: int = 1) -> str:
    return "\n".join(textwrap.indent(line, "    " * depth) for line in lines)


def listed(head: str, items: Sequence[str], tail: str, depth: int = 0) -> str:
    """`head(items)tail`, over several lines where one would be too long."""
    margin = "    " * depth
    single = f"{margin}{head}({', '.join(items)}){tail}"
    if len(single) <= WIDTH:
        return single
    lines = [f"{margin}{head}(", f"{margin}   "]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > WIDTH:
            lines.append(f"{margin}   ")
        lines[-1] += f" {item},"
    return "\n".join([*lines, f"{margin}){tail}"])
