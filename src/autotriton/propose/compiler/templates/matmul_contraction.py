"""Every operator that multiplies two tensors and sums over shared dimensions, in one form.

    out[batch..., rows..., cols...] = alpha * sum over k of left[batch..., rows..., k] * right[batch..., k, cols...]

Dimensions have names; an operand says which name each of its axes has (None where it is broadcast along that axis).
Permuted and transposed operands are only other names for the axes, so they cost nothing: kernels read by strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.fx

from autotriton.propose.compiler.templates.piece import hint, shape_of

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Unwritable(Exception):
    """This operator is no product of two tensors that we can write; the message says why."""


@dataclass(frozen=True)
class Operand:
    node: torch.fx.Node
    name: str
    """Of the wrapper's parameter, and with `_ptr` behind it of the kernel's."""
    dims: tuple[str | None, ...]

    def stride(self, dim: str) -> int:
        """In elements, as in the example; 0 where broadcast."""
        return hint(self.node.meta["val"].stride(self.dims.index(dim))) if dim in self.dims else 0


@dataclass(frozen=True)
class Addend:
    """beta * addend is added to the product: the bias of a linear layer, the first argument of addmm."""

    node: torch.fx.Node
    name: str
    beta: float
    per_column: bool
    """One contiguous value per column; otherwise anything that expands to the output."""


@dataclass(frozen=True)
class Contraction:
    left: Operand
    right: Operand
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    cols: tuple[str, ...]
    inner: tuple[str, ...]
    output: tuple[str, ...]
    extents: dict[str, int]
    formula: str
    """The product as a reader would write it, without the addend."""
    dtype: torch.dtype
    addend: Addend | None = None
    alpha: float = 1.0

    def extent(self, dims: tuple[str, ...]) -> int:
        return math.prod(self.extents[dim] for dim in dims)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, M, N, K in the example."""
        return tuple(map(self.extent, (self.batch, self.rows, self.cols, self.inner)))  # type: ignore[return-value]

    @property
    def rows_are_batched(self) -> bool:
        return bool(set(self.batch) & set(self.left.dims))

    @property
    def cols_are_batched(self) -> bool:
        return bool(set(self.batch) & set(self.right.dims))


def contraction_of(node: torch.fx.Node) -> Contraction:
    name = str(node.target).removeprefix("aten.").split(".")[0]
    reader = _READERS.get(name)
    if reader is None:
        raise Unwritable(f"{name} is not a product")
    found = reader(node)
    dtypes = {operand.node.meta["val"].dtype for operand in (found.left, found.right)}
    if len(dtypes) != 1 or not dtypes <= set(FLOATS):
        raise Unwritable(f"{name} of {', '.join(map(str, dtypes))}")
    return found


def _linear(node: torch.fx.Node) -> Contraction:
    x, weight, bias = (*node.args, None)[:3]
    if not (isinstance(x, torch.fx.Node) and isinstance(weight, torch.fx.Node)) or len(shape_of(weight)) != 2:
        raise Unwritable("linear with a weight that is no matrix")
    rows = _row_names(len(shape_of(x)) - 1)
    product = _sorted(
        Operand(x, "x", (*rows, "K")), Operand(weight, "weight", ("N", "K")), (), (*rows, "N"), "x @ weight.T"
    )
    return _with_addend(product, bias, 1.0, 1.0) if isinstance(bias, torch.fx.Node) else product


def _row_names(count: int) -> tuple[str, ...]:
    """Names of the dimensions that together are the rows of a matrix."""
    if count < 2:
        return ("M",) * count
    return (*_batch_names(count - 1), "S")


def _batch_names(count: int) -> tuple[str, ...]:
    return ("B",) if count == 1 else tuple(f"B{i}" for i in range(count))


def _matmul(node: torch.fx.Node) -> Contraction:
    a, b = _nodes(node.args[:2])
    rank, other = len(shape_of(a)), len(shape_of(b))
    if rank > 2 and other <= 2 and _rows_collapse(a):
        rows, cols = _row_names(rank - 1), ("N",) if other == 2 else ()
        return _sorted(Operand(a, "x", (*rows, "K")), Operand(b, "y", ("K", *cols)), (), (*rows, *cols), "x @ y")
    return _batched(a, b)


def _rows_collapse(node: torch.fx.Node) -> bool:
    """All dimensions but the last can be seen as one without a copy."""
    sizes, strides = shape_of(node), [hint(stride) for stride in node.meta["val"].stride()]
    return all(strides[i] == strides[i + 1] * sizes[i + 1] for i in range(len(sizes) - 2))


def _batched(a: torch.fx.Node, b: torch.fx.Node) -> Contraction:
    rank, other = len(shape_of(a)), len(shape_of(b))
    if min(rank, other) == 0:
        raise Unwritable("matmul of a scalar")
    batch = _batch_names(max(rank - 2, other - 2, 0))
    rows, cols = ("M",) * (rank > 1), ("N",) * (other > 1)
    left = Operand(a, "x", (*_broadcast(a, batch, 1 + len(rows)), *rows, "K"))
    right = Operand(b, "y", (*_broadcast(b, batch, 1 + len(cols)), "K", *cols))
    return _sorted(left, right, batch, (*batch, *rows, *cols), "x @ y")


def _broadcast(node: torch.fx.Node, batch: tuple[str, ...], own: int) -> tuple[str | None, ...]:
    """Names of the batch axes a tensor has; None where it has size 1."""
    sizes = shape_of(node)[: len(shape_of(node)) - own]
    names = batch[len(batch) - len(sizes) :]
    return tuple(None if size == 1 else name for size, name in zip(sizes, names, strict=True))


def _addmm(node: torch.fx.Node) -> Contraction:
    addend, a, b = _nodes(node.args[:3])
    beta, alpha = (_number(node.kwargs.get(key, 1)) for key in ("beta", "alpha"))
    return _with_addend(_batched(a, b), addend, beta, alpha)


def _einsum(node: torch.fx.Node) -> Contraction:
    equation, operands = str(node.args[0]).replace(" ", ""), node.args[1]
    if not isinstance(operands, list | tuple) or len(operands) != 2 or "." in equation:
        raise Unwritable("einsum of other than two tensors")
    left, right, result = _letters(equation)
    a, b = _nodes(tuple(operands))
    for letters in (left, right, result):
        if len(set(letters)) != len(letters):
            raise Unwritable("einsum over a diagonal")
    if (set(left) ^ set(right)) - set(result):
        raise Unwritable("einsum that sums one tensor alone")
    a_dims, b_dims, output = (tuple(f"size_{letter}" for letter in letters) for letters in (left, right, result))
    batch = tuple(dim for dim in output if dim in a_dims and dim in b_dims)
    return _sorted(Operand(a, "x", a_dims), Operand(b, "y", b_dims), batch, output, f"einsum('{equation}', x, y)")


def _letters(equation: str) -> tuple[str, str, str]:
    """Of the two tensors and of the result; without an arrow the result has every letter that occurs once."""
    tensors, arrow, result = equation.partition("->")
    left, _, right = tensors.partition(",")
    if not arrow:
        result = "".join(sorted(letter for letter in set(left + right) if (left + right).count(letter) == 1))
    return left, right, result


def _sorted(
    left: Operand, right: Operand, batch: tuple[str, ...], output: tuple[str, ...], formula: str
) -> Contraction:
    """With the dimensions sorted into batch, rows, columns and inner ones."""
    extents: dict[str, int] = {}
    for operand in (left, right):
        for size, dim in zip(shape_of(operand.node), operand.dims, strict=True):
            if dim is not None and extents.setdefault(dim, size) != size:
                raise Unwritable(f"sizes {extents[dim]} and {size} for one dimension")
    return Contraction(
        left=left,
        right=right,
        batch=batch,
        rows=tuple(dim for dim in output if dim in left.dims and dim not in batch),
        cols=tuple(dim for dim in output if dim in right.dims and dim not in batch),
        inner=tuple(dim for dim in left.dims if dim is not None and dim not in output),
        output=output,
        extents={**dict.fromkeys(batch, 1), **extents},
        formula=formula,
        dtype=left.node.meta["val"].dtype,
    )


def _with_addend(product: Contraction, node: torch.fx.Node, beta: float, alpha: float) -> Contraction:
    if beta == 0:  # not even read: torch lets NaN in there pass
        return replace(product, alpha=alpha)
    cols = product.extent(product.cols)
    per_column = shape_of(node) == (cols,) and beta == 1 and cols > 1 and hint(node.meta["val"].stride(0)) == 1
    name = "bias" if per_column else "addend"
    return replace(product, addend=Addend(node, name, beta, per_column), alpha=alpha)


def _nodes(args: tuple[object, ...]) -> tuple[torch.fx.Node, ...]:
    if not all(isinstance(arg, torch.fx.Node) for arg in args):
        raise Unwritable("a product of something that is no tensor")
    return args  # type: ignore[return-value]


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise Unwritable("a factor that is no number")
    return float(value)


_READERS: dict[str, Callable[[torch.fx.Node], Contraction]] = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "einsum": _einsum,
}
