"""Reductions over a `dim`, and operations on rows: softmax, norms, running sums. Rows of any length, block by block.

Two layouts: the dim is moved last and made contiguous, or the tensor is read in place as (outer, dim, inner).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    Scalar,
    allocation,
    drawn,
    dtype_of,
    flag,
    indented,
    maybe_out,
    shape_of,
    tensor,
)
from autotriton.data.wrappers.steps import Chain, chain


@dataclass(frozen=True)
class Reduction:
    """One number per row. `steps` run inside a loop over blocks, `end` behind it; they leave the result in `y`."""

    name: str
    torch: str
    """`{x}` is the operand."""
    math: str
    words: str
    passes: tuple[tuple[str, str, str, str], ...]
    """Each pass over the row: what comes before, the padding value, the step on `x`, what comes behind."""
    scalars: tuple[Scalar, ...] = ()
    dims: bool = False
    """Several dims, or None for all, may be given."""
    domain: str = "any"
    gives: str = "any"
    result: str = "same"
    """Type of the result: that of the input, or a torch type."""
    said: str = ""


_ZERO = "acc = tl.zeros([BLOCK], dtype=tl.float32)"
_LOW = 'acc = tl.full([BLOCK], float("-inf"), dtype=tl.float32)'
_HIGH = 'acc = tl.full([BLOCK], float("inf"), dtype=tl.float32)'
_INF = 'float("inf")'
_MEAN = (_ZERO, "0.0", "acc += x", "mean = tl.sum(acc, axis=0) / n_cols")
_CENTRED = (_ZERO, "mean", "acc += (x - mean) * (x - mean)")
_CORRECTION = Scalar("correction", "1", 0, 1, "what is subtracted from the number of elements in the divisor")
_TWICE = "The variance takes two passes, the mean first, then the centred squares: one pass would cancel."
_STABLE = "The row's maximum is found in a first pass and subtracted before the exponential, so nothing overflows."
REDUCTIONS = (
    Reduction("sum", "torch.sum({x}, dim=dim, keepdim=keepdim)", "sum_i {x}_i", "adds up the elements", ((_ZERO, "0.0", "acc += x", "y = tl.sum(acc, axis=0)"),), dims=True),
    Reduction("mean", "torch.mean({x}, dim=dim, keepdim=keepdim)", "1 / n * sum_i {x}_i", "averages the elements", ((_ZERO, "0.0", "acc += x", "y = tl.sum(acc, axis=0) / n_cols"),), dims=True),
    Reduction("amax", "torch.amax({x}, dim=dim, keepdim=keepdim)", "max_i {x}_i", "takes the largest element", ((_LOW, f"-{_INF}", "acc = tl.maximum(acc, x)", "y = tl.max(acc, axis=0)"),)),
    Reduction("amin", "torch.amin({x}, dim=dim, keepdim=keepdim)", "min_i {x}_i", "takes the smallest element", ((_HIGH, _INF, "acc = tl.minimum(acc, x)", "y = tl.min(acc, axis=0)"),)),
    Reduction("sum_of_squares", "torch.sum(torch.square({x}), dim=dim, keepdim=keepdim)", "sum_i {x}_i^2", "adds up the squares", ((_ZERO, "0.0", "acc += x * x", "y = tl.sum(acc, axis=0)"),), dims=True, gives="nonneg"),
    Reduction("norm", "torch.linalg.vector_norm({x}, dim=dim, keepdim=keepdim)", "sqrt(sum_i {x}_i^2)", "takes the Euclidean norm", ((_ZERO, "0.0", "acc += x * x", "y = tl.sqrt(tl.sum(acc, axis=0))"),), dims=True, gives="nonneg"),
    Reduction("vector_norm", "torch.linalg.vector_norm({x}, ord, dim=dim, keepdim=keepdim)", "(sum_i |{x}_i|^ord)^(1 / ord)", "takes the norm of order `ord`", ((_ZERO, "0.0", "acc += libdevice.pow(tl.abs(x), ord)", "y = libdevice.pow(tl.sum(acc, axis=0), 1.0 / ord)"),), (Scalar("ord", "2.0", 1.5, 3.0, "order of the norm, a positive number"),), dims=True, gives="nonneg"),
    Reduction("logsumexp", "torch.logsumexp({x}, dim=dim, keepdim=keepdim)", "ln(sum_i exp({x}_i))", "takes the logarithm of the sum of exponentials", ((_LOW, f"-{_INF}", "acc = tl.maximum(acc, x)", "top = tl.max(acc, axis=0)"), (_ZERO, f"-{_INF}", "acc += tl.exp(x - top)", "y = top + tl.log(tl.sum(acc, axis=0))")), said=_STABLE),
    Reduction("var", "torch.var({x}, dim=dim, correction=correction, keepdim=keepdim)", "sum_i ({x}_i - mean)^2 / (n - correction)", "takes the variance", (_MEAN, (*_CENTRED, "y = tl.sum(acc, axis=0) / (n_cols - correction)")), (_CORRECTION,), dims=True, gives="nonneg", said=_TWICE),
    Reduction("std", "torch.std({x}, dim=dim, correction=correction, keepdim=keepdim)", "sqrt(sum_i ({x}_i - mean)^2 / (n - correction))", "takes the standard deviation", (_MEAN, (*_CENTRED, "y = tl.sqrt(tl.sum(acc, axis=0) / (n_cols - correction))")), (_CORRECTION,), dims=True, gives="nonneg", said=_TWICE),
    Reduction("rms", "torch.sqrt(torch.mean(torch.square({x}), dim=dim, keepdim=keepdim))", "sqrt(1 / n * sum_i {x}_i^2)", "takes the root of the mean square", ((_ZERO, "0.0", "acc += x * x", "y = tl.sqrt(tl.sum(acc, axis=0) / n_cols)"),), dims=True, gives="nonneg"),
    Reduction("mean_abs", "torch.mean(torch.abs({x}), dim=dim, keepdim=keepdim)", "1 / n * sum_i |{x}_i|", "averages the absolute values", ((_ZERO, "0.0", "acc += tl.abs(x)", "y = tl.sum(acc, axis=0) / n_cols"),), dims=True, gives="nonneg"),
    Reduction("count_nonzero", "torch.count_nonzero({x}, dim=dim)", "number of i with {x}_i != 0", "counts the elements that are not zero", (("acc = tl.zeros([BLOCK], dtype=tl.int64)", "0.0", "acc += (x != 0).to(tl.int64)", "y = tl.sum(acc, axis=0)"),), domain="holes", result="torch.int64"),
    Reduction("argmax", "torch.argmax({x}, dim=dim, keepdim=keepdim)", "argmax_i {x}_i", "finds the position of the largest element, the first of equal ones", ((_LOW + "\nbest = tl.zeros([BLOCK], dtype=tl.int64)", f"-{_INF}", "best = tl.where(x > acc, cols, best)\nacc = tl.maximum(acc, x)", "top = tl.max(acc, axis=0)\ny = tl.min(tl.where(acc == top, best, n_cols), axis=0)"),), result="torch.int64", said="Every lane keeps its largest value and where it was; at the end the lowest position among equal ones wins."),
    Reduction("argmin", "torch.argmin({x}, dim=dim, keepdim=keepdim)", "argmin_i {x}_i", "finds the position of the smallest element, the first of equal ones", ((_HIGH + "\nbest = tl.zeros([BLOCK], dtype=tl.int64)", _INF, "best = tl.where(x < acc, cols, best)\nacc = tl.minimum(acc, x)", "low = tl.min(acc, axis=0)\ny = tl.min(tl.where(acc == low, best, n_cols), axis=0)"),), result="torch.int64", said="Every lane keeps its smallest value and where it was; at the end the lowest position among equal ones wins."),
)  # fmt: skip


@dataclass(frozen=True)
class RowOperation:
    """As many numbers per row as it has. The last pass stores `y`; those before it are like a reduction's."""

    name: str
    torch: str
    math: str
    words: str
    passes: tuple[tuple[str, str, str, str], ...]
    last: str
    """What the storing pass computes of `x`."""
    scalars: tuple[Scalar, ...] = ()
    gives: str = "any"
    said: str = ""


_TOP = (_LOW, f"-{_INF}", "acc = tl.maximum(acc, x)", "top = tl.max(acc, axis=0)")
_TOTAL = (_ZERO, f"-{_INF}", "acc += tl.exp(x - top)", "total = tl.sum(acc, axis=0)")
_TEMPERATURE = Scalar("temperature", "1.0", 0.6, 2.0, "divides the input first; larger values flatten the result")
_EPS = Scalar("eps", "1e-5", 0.001, 0.1, "keeps the divisor away from zero")
_TINY = Scalar("eps", "1e-12", 0.001, 0.1, "smallest divisor")
_SQUARES = (_ZERO, "0.0", "acc += x * x")
ROW_OPERATIONS = (
    RowOperation("softmax", "torch.softmax({x}, dim=dim)", "exp(x_i) / sum_j exp(x_j)", "applies softmax", (_TOP, _TOTAL), "tl.exp(x - top) / total", gives="nonneg", said=_STABLE),
    RowOperation("log_softmax", "torch.log_softmax({x}, dim=dim)", "x_i - ln(sum_j exp(x_j))", "applies the logarithm of softmax", (_TOP, _TOTAL), "x - top - tl.log(total)", said=_STABLE),
    RowOperation("softmin", "F.softmin({x}, dim=dim)", "exp(-x_i) / sum_j exp(-x_j)", "applies softmin", ((_HIGH, _INF, "acc = tl.minimum(acc, x)", "low = tl.min(acc, axis=0)"), (_ZERO, _INF, "acc += tl.exp(low - x)", "total = tl.sum(acc, axis=0)")), "tl.exp(low - x) / total", gives="nonneg", said="The row's minimum is found first and subtracted, so nothing overflows."),
    RowOperation("softmax_with_temperature", "torch.softmax({x} / temperature, dim=dim)", "exp(x_i / temperature) / sum_j exp(x_j / temperature)", "divides by a temperature and applies softmax", (_TOP, (_ZERO, f"-{_INF}", "acc += tl.exp((x - top) / temperature)", "total = tl.sum(acc, axis=0)")), "tl.exp((x - top) / temperature) / total", (_TEMPERATURE,), gives="nonneg", said=_STABLE),
    RowOperation("normalize", "F.normalize({x}, dim=dim, eps=eps)", "x / max(||x||_2, eps)", "divides by the Euclidean norm", ((*_SQUARES, "norm = tl.maximum(tl.sqrt(tl.sum(acc, axis=0)), eps)"),), "x / norm", (_TINY,)),
    RowOperation("l1_normalize", "F.normalize({x}, p=1.0, dim=dim, eps=eps)", "x / max(sum_j |x_j|, eps)", "divides by the sum of absolute values", ((_ZERO, "0.0", "acc += tl.abs(x)", "norm = tl.maximum(tl.sum(acc, axis=0), eps)"),), "x / norm", (_TINY,)),
    RowOperation("rms_normalize", "{x} * torch.rsqrt(torch.mean(torch.square({x}), dim=dim, keepdim=True) + eps)", "x / sqrt(mean_j(x_j^2) + eps)", "divides by the root mean square", ((*_SQUARES, "scale_row = tl.rsqrt(tl.sum(acc, axis=0) / n_cols + eps)"),), "x * scale_row", (_EPS,)),
    RowOperation("standardize", "({x} - torch.mean({x}, dim=dim, keepdim=True)) * torch.rsqrt(torch.var({x}, dim=dim, correction=0, keepdim=True) + eps)", "(x - mean) / sqrt(var + eps)", "subtracts the mean and divides by the standard deviation", (_MEAN, (*_CENTRED, "inv_std = tl.rsqrt(tl.sum(acc, axis=0) / n_cols + eps)")), "(x - mean) * inv_std", (_EPS,), said=_TWICE),
    RowOperation("center", "{x} - torch.mean({x}, dim=dim, keepdim=True)", "x - mean", "subtracts the mean", (_MEAN,), "x - mean"),
    RowOperation("divide_by_max", "{x} / (torch.amax(torch.abs({x}), dim=dim, keepdim=True) + eps)", "x / (max_j |x_j| + eps)", "divides by the largest magnitude", ((_ZERO, "0.0", "acc = tl.maximum(acc, tl.abs(x))", "top = tl.max(acc, axis=0) + eps"),), "x / top", (_EPS,)),
    RowOperation("cumsum", "torch.cumsum({x}, dim=dim)", "sum_(j <= i) x_j", "takes running sums", (), "carry + tl.cumsum(x, axis=0)", said="Inside a block the running sum is a scan; `carry` takes the total of all earlier blocks along."),
)  # fmt: skip


def reduction(draw: Random) -> Plan:
    """With a chain before it or behind it in a share of the cases."""
    chosen = draw.choice(REDUCTIONS)
    floats = chosen.result == "same"
    taken = frozenset(scalar.name for scalar in chosen.scalars) | {"dim", "keepdim"}
    before = chain(draw, draw.choice((1, 1, 2)), taken=taken) if floats and draw.random() < 0.35 else Chain(())
    taken |= {scalar.name for scalar in before.scalars}
    after = Chain(())
    if floats and draw.random() < 0.3:
        after = chain(draw, draw.choice((1, 2)), domain=chosen.gives, first=False, taken=taken)
    name = "_".join([*before.names, chosen.name, *after.names])
    name = draw.choice((f"fused_{name}", name)) if before.steps or after.steps else name
    scalars = (*before.scalars, *chosen.scalars, *after.scalars)
    layout = _layout(draw, chosen.dims)
    shape = shape_of(draw, draw.choices((2, 3, 4), weights=(4, 4, 1))[0])
    keeps = "keepdim" in chosen.torch
    parameters = (
        tensor("input", "the input tensor", _input(draw, shape, before, chosen.domain)),
        dim_parameter(draw, layout, len(shape)),
        *((flag("keepdim", "keep the reduced dimension with size 1", draw.random() < 0.4),) if keeps else ()),
        *(scalar.parameter(keyword=True) if scalar is not _CORRECTION else _correction(draw) for scalar in scalars),
    )  # fmt: skip
    parameters += maybe_out(draw, 0.2)
    block = draw.choice((128, 256, 512, 1024))
    lines = walked(chosen.passes, before, layout)
    lines += after.lines("y", "y")
    lines.append("tl.store(out_ptr + row, y)")
    dtype = chosen.result if not floats else "input.dtype"
    sizes = _sizes(layout, [scalar.name for scalar in scalars])
    body = [
        *reduced_shape(layout, keeps),
        *allocation(parameters, f"torch.empty(shape, dtype={dtype}, device=input.device)"),
        f"{name}_kernel[(out.numel(),)]({', '.join(['x', 'out', *sizes])}, BLOCK={block})",
        "return out",
    ]
    pre = f"first {before.words}, then " if before.steps else ""
    post = f", and at last {after.words}" if after.steps else ""
    inside = before.math("x")
    math = chosen.math.format(x=inside if inside == "x" else f"({inside})")
    kept = "; with `keepdim` it stays with size 1" if keeps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim` it {pre}{chosen.words}{post}. The dimension disappears{kept}.",
        formula="; ".join([f"out = {after.math(math)}", *before.definitions, *after.definitions]),
        shapes=("input: any shape with at least one dimension", f"output: the shape of `input` without `dim`{kept}"),
        reference=(f"return {after.torch(chosen.torch.format(x=before.torch('input')))}",),
        kernels=row_kernel(name, layout, [scalar.name for scalar in scalars], lines),
        body=tuple(body),
        said=tuple(filter(None, (layout_said(layout, block), chosen.said))),
    )


def row_operation(draw: Random) -> Plan:
    """The result has the shape of the input."""
    chosen = draw.choice(ROW_OPERATIONS)
    taken = frozenset(scalar.name for scalar in chosen.scalars) | {"dim"}
    before = chain(draw, 1, taken=taken) if draw.random() < 0.25 else Chain(())
    taken |= {scalar.name for scalar in before.scalars}
    after = Chain(())
    if draw.random() < 0.4:
        after = chain(draw, draw.choice((1, 2)), domain=chosen.gives, first=False, taken=taken)
    name = "_".join([*before.names, chosen.name, *after.names])
    name = draw.choice((f"fused_{name}", name)) if before.steps or after.steps else name
    scalars = [scalar.name for scalar in (*before.scalars, *chosen.scalars, *after.scalars)]
    layout = _layout(draw, False)
    shape = shape_of(draw, draw.choices((2, 3, 4), weights=(4, 4, 1))[0])
    keyword = draw.random() < 0.5
    parameters = (
        tensor("input", "the input tensor", _input(draw, shape, before, "any")),
        dim_parameter(draw, layout, len(shape)),
        *(
            scalar.parameter(keyword=keyword)
            for scalar in (*before.scalars, *chosen.scalars, *after.scalars)
        ),
    )  # fmt: skip
    if layout == "inner":
        parameters += maybe_out(draw, 0.25)
    block = draw.choice((128, 256, 512, 1024))
    lines = walked(chosen.passes, before, layout)
    running = chosen.name == "cumsum"
    stored = [*_load("0.0", before, layout), f"y = {chosen.last}", *(["carry += tl.sum(x, axis=0)"] * running)]
    stored += [*after.lines("y", "y"), f"tl.store(out_ptr + {_place(layout)}, y, mask=mask)"]
    lines += [*(["carry = 0.0"] * running), "for start in range(0, n_cols, BLOCK):", *indented(stored).split("\n")]
    sizes = _sizes(layout, scalars)
    rows = "n_rows" if layout == "moved" else "x.numel() // n_cols"
    body = [
        *_moved_shape(layout),
        *(allocation(parameters, "torch.empty_like(x)")),
        f"{name}_kernel[({rows},)]({', '.join(['x', 'out', *sizes])}, BLOCK={block})",
        "return out.movedim(-1, dim).contiguous()" if layout == "moved" else "return out",
    ]
    pre = f"first {before.words}, then " if before.steps else ""
    post = f", and at last {after.words}" if after.steps else ""
    math = chosen.math if not before.steps else f"{chosen.math} with x = {before.math('input')}"
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along `dim` it {pre}{chosen.words}{post}. The shape does not change.",
        formula="; ".join(
            [
                f"out = {after.math('r')}, r = {math}" if after.steps else f"out = {math}",
                *before.definitions,
                *after.definitions,
            ]
        ),
        shapes=("input: any shape with at least one dimension", "output: the shape of `input`"),
        reference=tuple(_row_reference(chosen, before, after)),
        kernels=row_kernel(name, layout, scalars, lines),
        body=tuple(body),
        said=tuple(filter(None, (layout_said(layout, block), chosen.said))),
    )


def _row_reference(chosen: RowOperation, before: Chain, after: Chain) -> list[str]:
    if before.steps and chosen.torch.count("{x}") > 1:
        return [f"x = {before.torch('input')}", f"y = {chosen.torch.format(x='x')}", f"return {after.torch('y')}"]
    inside = before.torch("input")
    inside = f"({inside})" if before.steps and not chosen.torch.partition("{x}")[0].endswith("(") else inside
    if before.steps and "{x} /" in chosen.torch:
        inside = f"({before.torch('input')})"
    value = chosen.torch.format(x=inside)
    return [f"y = {value}", f"return {after.torch('y')}"] if after.steps else [f"return {value}"]


def _layout(draw: Random, dims: bool) -> str:
    if dims and draw.random() < 0.6:
        return "dims"
    return draw.choice(("moved", "inner"))


def dim_parameter(draw: Random, layout: str, dims: int) -> Parameter:
    if layout == "dims":
        several = sorted(draw.sample(range(dims), draw.randint(1, dims)))
        given = draw.choice(("", str(several[0]), f"({', '.join(map(str, several))},)", str(-1 - several[0] % dims)))
        return Parameter("dim", "int or tuple of ints, optional", "what is reduced; None reduces everything", default="None", given=given)  # fmt: skip
    default = draw.choice(("-1", "-1", None, "1", "0"))
    given = str(draw.randrange(-dims, dims))
    if draw.random() < 0.4:
        given = default or "-1"
    return Parameter("dim", "int", "the dimension it works along; may be negative", default=default, given=given)


def _correction(draw: Random) -> Parameter:
    given = str(draw.choice((0, 1, 1, 2)))
    return Parameter("correction", "int", _CORRECTION.about, default="1", keyword=True, given=given)


def _input(draw: Random, shape: list[int], before: Chain, domain: str) -> str:
    if domain == "holes":
        return f"torch.relu({drawn(shape)})"
    if shape[-1] == 1 or 1 in shape:
        shape = [size if size > 1 else 5 for size in shape]
    return drawn(shape, dtype_of(draw), before.domain)


def row_kernel(name: str, layout: str, scalars: list[str], lines: list[str]) -> str:
    given = "".join(f", {scalar}" for scalar in scalars)
    sizes = "n_cols, inner" if layout == "inner" else "n_cols"
    head = ["row = tl.program_id(0).to(tl.int64)"]
    head.append("base = row // inner * n_cols * inner + row % inner" if layout == "inner" else "base = row * n_cols")
    return (
        f"@triton.jit\ndef {name}_kernel(x_ptr, out_ptr, {sizes}{given}, BLOCK: tl.constexpr):\n"
        + indented([*head, *lines])
        + "\n"
    )


def _place(layout: str) -> str:
    return "base + cols * inner" if layout == "inner" else "base + cols"


def _load(padding: str, before: Chain, layout: str) -> list[str]:
    lines = ["cols = start + tl.arange(0, BLOCK)", "mask = cols < n_cols"]
    filled = "0.0" if before.steps or padding == "mean" else padding
    lines.append(f"x = tl.load(x_ptr + {_place(layout)}, mask=mask, other={filled}).to(tl.float32)")
    lines += before.lines("x", "x")
    if before.steps or padding == "mean":
        lines.append(f"x = tl.where(mask, x, {padding})")
    return lines


def walked(passes: tuple[tuple[str, str, str, str], ...], before: Chain, layout: str) -> list[str]:
    lines: list[str] = []
    for first, padding, step, behind in passes:
        inside = [*_load(padding, before, layout), *step.split("\n")]
        lines += [*first.split("\n"), "for start in range(0, n_cols, BLOCK):", *indented(inside).split("\n")]
        lines += behind.split("\n")
    return lines


def _sizes(layout: str, scalars: list[str]) -> list[str]:
    return ["n_cols", *(["inner"] if layout == "inner" else []), *scalars]


def reduced_shape(layout: str, keeps: bool) -> list[str]:
    """From the arguments to `x`, `n_cols` and the result's `shape`."""
    if layout == "dims":
        lines = [
            "if dim is None:",
            "    dim = tuple(range(input.ndim))",
            "dims = [d % input.ndim for d in ((dim,) if isinstance(dim, int) else dim)]",
            "kept = [d for d in range(input.ndim) if d not in dims]",
            "x = input.permute(*kept, *dims).contiguous()  # what is reduced lies last",
            "n_cols = math.prod(input.shape[d] for d in dims)",
        ]
        if not keeps:
            return [*lines, "shape = [input.shape[d] for d in kept]"]
        return [
            *lines,
            "if keepdim:",
            "    shape = [1 if d in dims else size for d, size in enumerate(input.shape)]",
            "else:",
            "    shape = [input.shape[d] for d in kept]",
        ]
    lines = ["dim = dim % input.ndim"]
    if layout == "moved":
        lines += ["x = input.movedim(dim, -1).contiguous()", "n_cols = x.shape[-1]"]
    else:
        lines += ["x = input.contiguous()", "n_cols = x.shape[dim]", "inner = math.prod(x.shape[dim + 1 :])"]
    if not keeps:
        return [*lines, "shape = input.shape[:dim] + input.shape[dim + 1 :]"]
    return [*lines, "shape = list(input.shape)", "shape[dim : dim + 1] = [1] if keepdim else []"]


def _moved_shape(layout: str) -> list[str]:
    if layout == "moved":
        return [
            "x = input.movedim(dim, -1).contiguous()",
            "n_cols = x.shape[-1]",
            "n_rows = x.numel() // n_cols",
        ]
    return [
        "dim = dim % input.ndim",
        "x = input.contiguous()",
        "n_cols = x.shape[dim]",
        "inner = math.prod(x.shape[dim + 1 :])",
    ]


def layout_said(layout: str, block: int) -> str:
    how = {
        "moved": "`dim` is moved last and the tensor made contiguous, so every row is one piece of memory.",
        "inner": "The tensor stays where it is, seen as (outer, dim, inner): neighbours along `dim` lie `inner` apart.",
        "dims": "The reduced dims are moved last and the tensor made contiguous, so what is reduced is one row.",
    }[layout]
    return f"{how} One program takes one row and walks over it in blocks of {block}, masked at its end, so a row may be of any length."
