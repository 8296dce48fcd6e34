"""Reductions with a result of their own: positions of extremes, values together with positions, spread by `unbiased`,
and one reduction behind another.
"""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, drawn, dtype_of, flag, shape_of, tensor
from autotriton.data.wrappers.rows import (
    REDUCTIONS,
    Reduction,
    dim_parameter,
    layout_said,
    reduced_shape,
    row_kernel,
    walked,
)
from autotriton.data.wrappers.spatial import activation
from autotriton.data.wrappers.steps import Chain, chain

_BY_NAME = {reduction.name: reduction for reduction in REDUCTIONS}
_KEEPS = ("keepdim", "keep the reduced dimension with size 1")
_TAKEN = frozenset(("dim", "keepdim", "unbiased", "correction"))
_ONE_OR_ALL = (
    "if dim is None:",
    "    x, n_cols = input.contiguous(), input.numel()",
    "    shape = [1] * input.ndim if keepdim else []",
    "else:",
    "    dim = dim % input.ndim",
    "    x = input.movedim(dim, -1).contiguous()",
    "    n_cols = x.shape[-1]",
    "    shape = list(input.shape)",
    "    shape[dim : dim + 1] = [1] if keepdim else []",
)
_MOVED_OR_FLAT = (
    "With `dim` None the whole tensor is one row; else `dim` is moved last and the tensor made contiguous. One program takes "
    "one row and walks over it in blocks of {}, masked at its end."
)
_FLAT = frozenset(
    [
        "relu",
        "relu6",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "threshold",
        "softshrink",
        "hardshrink",
        "clamp_min",
        "clamp_max",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sign",
    ]
)
_FIRST = ("sum", "mean", "amax", "amin", "norm", "std", "var", "rms")
_SECOND = ("sum", "mean", "std", "var", "amax", "amin", "norm")


def position(draw: Random) -> Plan:
    """argmax and argmin over one dim or over all, of the values or of an activation of them."""
    kind = draw.choice(("argmax", "argmin"))
    found, before = _BY_NAME[kind], _before(draw, 0.45, ordered=True)
    name = _named(draw, kind, before, Chain(()))
    shape, block = _shape(draw), draw.choice((128, 256, 512, 1024))
    given = "" if draw.random() < 0.35 else str(draw.randrange(-len(shape), len(shape)))
    parameters = (
        tensor("input", "the input tensor", _values(draw, shape, before)),
        Parameter("dim", "int, optional", "the dimension that is searched; None searches the flattened tensor", "None", given=given),
        flag(*_KEEPS, draw.random() < 0.4),
        *(scalar.parameter(keyword=True) for scalar in before.scalars),
    )  # fmt: skip
    scalars = [scalar.name for scalar in before.scalars]
    lines = [*walked(found.passes, before, "moved"), "tl.store(out_ptr + row, y)"]
    pre = f" first {before.words}, then" if before.steps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim` it{pre} {found.words}. The result is int64; with `keepdim` the dimension stays with size 1.",
        formula="; ".join([f"out = {_math(found, before)}", *before.definitions]),
        shapes=("input: any shape", "output: the shape of `input` without `dim`; () where `dim` is None"),
        reference=(f"return {found.torch.format(x=before.torch('input'))}",),
        kernels=row_kernel(name, "moved", scalars, lines),
        body=(
            *_ONE_OR_ALL,
            "out = torch.empty(shape, dtype=torch.int64, device=input.device)",
            f"{name}_kernel[(out.numel(),)]({', '.join(['x', 'out', 'n_cols', *scalars])}, BLOCK={block})",
            "return out",
        ),
        said=(_MOVED_OR_FLAT.format(block), found.said),
    )


def extreme(draw: Random) -> Plan:
    """max and min over a dim: values and their positions."""
    kind = draw.choice(("max", "min"))
    found, before = _BY_NAME[f"arg{kind}"], _before(draw, 0.45, ordered=True)
    name = _named(draw, draw.choice((kind, f"{kind}_with_indices", f"{kind}_along_dim")), before, Chain(()))
    shape, block = _shape(draw, least=2), draw.choice((128, 256, 512, 1024))
    parameters = (
        tensor("input", "the input tensor", _values(draw, shape, before)),
        dim_parameter(draw, "moved", len(shape)),
        flag(*_KEEPS, draw.random() < 0.4),
        *(scalar.parameter(keyword=True) for scalar in before.scalars),
    )
    scalars = [scalar.name for scalar in before.scalars]
    value = {"max": "top", "min": "low"}[kind]
    lines = [
        *walked(found.passes, before, "moved"),
        f"tl.store(out_ptr + row, {value})",
        "tl.store(indices_ptr + row, y)",
    ]
    pre = f" first {before.words}, then" if before.steps else ""
    which = {"max": "largest", "min": "smallest"}[kind]
    operand = before.math("x")
    operand = operand if operand == "x" else f"({operand})"
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim` it{pre} finds the {which} element and its position, the first of equal ones. It returns the "
        "tuple (values, indices), the indices as int64.",
        formula="; ".join([f"values = {kind}_i {operand}_i, indices = arg{kind}_i {operand}_i", *before.definitions]),
        shapes=("input: any shape with at least one dimension", "values, indices: the shape of `input` without `dim`; with `keepdim` it stays with size 1"),
        reference=(
            f"values, indices = torch.{kind}({before.torch('input')}, dim=dim, keepdim=keepdim)",
            "return values, indices",
        ),
        kernels=row_kernel(name, "moved", scalars, lines).replace("out_ptr,", "out_ptr, indices_ptr,", 1).replace("out_ptr", "values_ptr"),
        body=(
            *reduced_shape("moved", True),
            "values = torch.empty(shape, dtype=input.dtype, device=input.device)",
            "indices = torch.empty(shape, dtype=torch.int64, device=input.device)",
            f"{name}_kernel[(values.numel(),)]({', '.join(['x', 'values', 'indices', 'n_cols', *scalars])}, BLOCK={block})",
            "return values, indices",
        ),
        said=(layout_said("moved", block), found.said, "The values and their positions are stored side by side."),
        returns="(Tensor, Tensor)",
    )  # fmt: skip


def spread(draw: Random) -> Plan:
    """std and var over None, one or several dims, by `unbiased` or by `correction`, with a step on one side."""
    kind = draw.choice(("std", "var"))
    found = _BY_NAME[kind]
    before = _before(draw, 0.45)
    behind = (
        Chain(()) if before.steps or draw.random() < 0.5 else chain(draw, 1, domain="nonneg", first=False, taken=_TAKEN)
    )
    name = _named(draw, kind, before, behind)
    shape, block = _shape(draw), draw.choice((128, 256, 512, 1024))
    by = draw.choice(("unbiased", "correction"))
    if by == "unbiased":
        about = "divide by n - 1 (True) or by n (False)"
        how = Parameter("unbiased", "bool", about, default="True", given=draw.choice(("", "False", "True")))
    else:
        about, given = "what is subtracted from n in the divisor", str(draw.choice((0, 1, 2)))
        how = Parameter("correction", "int", about, default="1", keyword=draw.random() < 0.6, given=given)
    parameters = (
        tensor("input", "the input tensor", drawn(shape, dtype_of(draw), before.domain)),
        dim_parameter(draw, "dims", len(shape)),
        how,
        flag(*_KEEPS, draw.random() < 0.4, keyword=how.keyword),
        *(scalar.parameter(keyword=True) for scalar in (*before.scalars, *behind.scalars)),
    )
    scalars = ["correction", *(scalar.name for scalar in (*before.scalars, *behind.scalars))]
    lines = [*walked(found.passes, before, "dims"), *behind.lines("y", "y"), "tl.store(out_ptr + row, y)"]
    called = found.torch.format(x=before.torch("input"))
    if by == "unbiased":
        called = called.replace("correction=correction", "correction=int(unbiased)")
    pre = f" first {before.words}, then" if before.steps else ""
    post = f", and at last {behind.words}" if behind.steps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim`, which may be one dimension, several or all, it{pre} {found.words}{post}.",
        formula="; ".join(
            [
                f"out = {behind.math(_math(found, before))}",
                *(["correction = 1 if unbiased else 0"] * (by == "unbiased")),
                *before.definitions,
                *behind.definitions,
            ]
        ),
        shapes=("input: any shape", "output: the shape of `input` without the reduced dims; with `keepdim` they stay with size 1"),
        reference=(f"return {behind.torch(called)}",),
        kernels=row_kernel(name, "dims", scalars, lines),
        body=(
            *reduced_shape("dims", True),
            *(["correction = 1 if unbiased else 0"] * (by == "unbiased")),
            "out = torch.empty(shape, dtype=input.dtype, device=input.device)",
            f"{name}_kernel[(out.numel(),)]({', '.join(['x', 'out', 'n_cols', *scalars])}, BLOCK={block})",
            "return out",
        ),
        said=(layout_said("dims", block), found.said),
    )  # fmt: skip


def twice(draw: Random) -> Plan:
    """A reduction over some dims, then another one over all that is left."""
    first, second = (_BY_NAME[draw.choice(names)] for names in (_FIRST, _SECOND))
    if {first.name, second.name} <= {"std", "var"} or first is second:
        first = _BY_NAME[draw.choice(("sum", "mean", "amax"))]
        second = _BY_NAME[draw.choice(("std", "var"))]
    before = _before(draw, 0.25)
    name = _named(draw, f"{first.name}_{second.name}", before, Chain(()))
    shape = [size + 1 for size in _shape(draw, least=2)]
    reduced = sorted(draw.sample(range(len(shape)), draw.randint(1, len(shape) - 1)))
    given = (
        f"({', '.join(map(str, reduced))})"
        if len(reduced) > 1
        else draw.choice((str(reduced[0]), str(reduced[0] - len(shape))))
    )
    corrected = [r.name for r in (first, second) if r.scalars]
    parameters = (
        tensor("input", "the input tensor", drawn(shape, dtype_of(draw), before.domain)),
        Parameter("dim", "int or tuple of ints", "what the first reduction works along", given=given),
        *((Parameter("correction", "int", "what is subtracted from the number of elements in the divisor", "1", keyword=True, given=str(draw.choice((0, 1)))),) if corrected else ()),
        *(scalar.parameter(keyword=True) for scalar in before.scalars),
    )  # fmt: skip
    block = draw.choice((128, 256, 512, 1024))
    scalars = [scalar.name for scalar in (*first.scalars, *before.scalars)]
    kernels = [
        row_kernel(f"{name}_rows", "dims", scalars, [*walked(first.passes, before, "dims"), "tl.store(out_ptr + row, y)"]),
        row_kernel(f"{name}_all", "dims", [s.name for s in second.scalars], [*walked(second.passes, Chain(()), "dims"), "tl.store(out_ptr + row, y)"]),
    ]  # fmt: skip
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim` it {f'first {before.words}, then ' if before.steps else ''}{first.words}. Of all the results it "
        f"then {second.words}; what is left is one number.",
        formula="; ".join([f"out = {second.math.format(x='r')}, r = {_math(first, before)} along dim", *before.definitions]),
        shapes=("input: any shape", "output: ()"),
        reference=(f"r = {_plain(first).format(x=before.torch('input'))}", f"return {_whole(second)}"),
        kernels="\n\n".join(kernels),
        body=(
            *reduced_shape("dims", False)[2:],
            "rows = torch.empty(shape, dtype=torch.float32, device=input.device)",
            f"{name}_rows_kernel[(rows.numel(),)]({', '.join(['x', 'rows', 'n_cols', *scalars])}, BLOCK={block})",
            "out = torch.empty((), dtype=input.dtype, device=input.device)",
            f"{name}_all_kernel[(1,)]({', '.join(['rows', 'out', 'rows.numel()', *(s.name for s in second.scalars)])}, BLOCK={block})",
            "return out",
        ),
        said=(
            layout_said("dims", block),
            "A second kernel of one program walks over the results of the first, which are kept in fp32.",
        ),
    )  # fmt: skip


def _plain(found: Reduction) -> str:
    return found.torch.replace(", keepdim=keepdim", "")


def _whole(found: Reduction) -> str:
    return _plain(found).replace("dim=dim, ", "").replace(", dim=dim", "").format(x="r")


def _before(draw: Random, share: float, *, ordered: bool = False) -> Chain:
    """A step on the input; activations more often than others. `ordered`: it is defined everywhere and not flat, so that
    a position means something.
    """
    if draw.random() >= share:
        return Chain(())
    while True:
        found = activation(draw, _TAKEN) if draw.random() < 0.5 else chain(draw, 1, taken=_TAKEN)
        if not ordered or all(step.needs == "any" and step.name not in _FLAT for step in found.steps):
            return found


def _named(draw: Random, kind: str, before: Chain, behind: Chain) -> str:
    name = "_".join((*before.names, kind, *behind.names))
    return draw.choice((name, name, f"fused_{name}")) if before.steps or behind.steps else name


def _shape(draw: Random, least: int = 1) -> list[int]:
    """No dimension of one element: nothing varies along it."""
    dims = max(least, draw.choices((1, 2, 3, 4), weights=(1, 4, 4, 1))[0])
    return [size if size > 2 else 5 for size in shape_of(draw, dims, 2000)]


def _values(draw: Random, shape: list[int], before: Chain) -> str:
    """In 16 bits a step would round different values to one, and its rounding would decide which is the first."""
    return drawn(shape, "float32" if before.steps else dtype_of(draw), before.domain)


def _math(found: Reduction, before: Chain) -> str:
    inside = before.math("x")
    return found.math.format(x=inside if inside == "x" else f"({inside})")
