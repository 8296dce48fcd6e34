"""Compositions that need an index or two kernels: lookups, one-hot, triangles, gates, a linear map that is reduced."""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, Scalar, drawn, dtype_of, flag, indented, shape_of, tensor
from autotriton.data.wrappers.pointwise import block_of, flat_kernel, flat_said, launch
from autotriton.data.wrappers.steps import STEPS, Chain, chain


def embedding(draw: Random) -> Plan:
    """Rows of a table by their numbers."""
    behind = chain(draw, draw.choice((1, 2)), first=False, taken=frozenset(("weight",)))
    name = "embedding_" + "_".join(behind.names)
    name = draw.choice((f"fused_{name}", name))
    words, width = draw.randint(4, 40), draw.randint(3, 60)
    shape = [draw.randint(2, 9) for _ in range(draw.choice((1, 2)))]
    sizes = ", ".join(map(str, shape))
    parameters = (
        tensor("input", "row numbers, of an integer type", f"torch.randint(0, {words}, ({sizes},))"),
        tensor("weight", "the table", drawn([words, width], dtype_of(draw))),
        *(scalar.parameter(keyword=True) for scalar in behind.scalars),
    )
    scalars = [scalar.name for scalar in behind.scalars]
    lines = [
        "row = offsets // width",
        "word = tl.load(index_ptr + row, mask=mask, other=0).to(tl.int64)",
        "y = tl.load(table_ptr + word * width + offsets % width, mask=mask).to(tl.float32)",
        *behind.lines("y", "y"),
    ]
    block = block_of(draw)
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Looks up the rows of `weight` that `input` names. Of every element it then {behind.words}.",
        formula="; ".join([f"out[i] = {behind.math('weight[input[i]]')}", *behind.definitions]),
        shapes=("input: any shape (*)", "weight: (V, D)", "output: (*, D)"),
        reference=(f"return {behind.torch('F.embedding(input, weight)')}",),
        kernels=flat_kernel(name, ["index_ptr", "table_ptr"], ["width", *scalars], lines),
        body=(
            "index, table = input.contiguous(), weight.contiguous()",
            "width = table.shape[1]",
            "out = torch.empty((*index.shape, width), dtype=table.dtype, device=table.device)",
            *launch(name, ["index", "table", "out", "n_elements", "width", *scalars], block),
        ),
        said=(
            f"Each program writes {block} elements of the result: from its flat index follow the row and the column, "
            "the row's number is loaded first, then the table's element. The mask covers both loads.",
        ),
    )


def one_hot(draw: Random) -> Plan:
    """Ones where the class is, or two values with label smoothing."""
    smooth = draw.random() < 0.6
    name = "smoothed_one_hot" if smooth else "one_hot"
    classes, shape = draw.randint(3, 30), [draw.randint(2, 20) for _ in range(draw.choice((1, 2)))]
    smoothing = Scalar("smoothing", "0.1", 0.05, 0.5, "mass that is spread over all classes")
    parameters = (
        tensor("input", "class numbers", f"torch.randint(0, {classes}, ({', '.join(map(str, shape))},))"),
        Parameter("num_classes", "int", "how many classes there are", given=str(classes)),
        *((smoothing.parameter(),) if smooth else ()),
    )
    hot = "(offsets % num_classes) == label"
    lines = ["label = tl.load(x_ptr + offsets // num_classes, mask=mask, other=0)", f"y = ({hot}).to(tl.int64)"]
    if smooth:
        lines[1] = f"y = tl.where({hot}, 1.0 - smoothing, 0.0) + smoothing / num_classes"
    scalars = ["num_classes", *(["smoothing"] * smooth)]
    block = block_of(draw)
    return Plan(
        name=name,
        parameters=parameters,
        summary="Writes every class number as a row of `num_classes` entries, "
        + (
            "1 - smoothing at the class plus smoothing / num_classes everywhere, in float32."
            if smooth
            else "1 at the class and 0 elsewhere, as int64."
        ),
        formula="out[i, c] = (1 - smoothing) * [input[i] == c] + smoothing / num_classes"
        if smooth
        else "out[i, c] = 1 if input[i] == c else 0",
        shapes=("input: any shape (*)", "output: (*, num_classes)"),
        reference=(
            "hot = F.one_hot(input, num_classes).float()",
            "return hot * (1.0 - smoothing) + smoothing / num_classes",
        )
        if smooth
        else ("return F.one_hot(input, num_classes)",),
        kernels=flat_kernel(name, ["x_ptr"], scalars, lines),
        body=(
            "x = input.contiguous()",
            f"out = torch.empty((*x.shape, num_classes), dtype=torch.{'float32' if smooth else 'int64'}, device=x.device)",
            *launch(name, ["x", "out", "n_elements", *scalars], block),
        ),
        said=(
            f"Every element of the result is computed by itself: its column is compared with the label of its row. Each "
            f"program takes {block} elements, masked at the end.",
        ),
    )  # fmt: skip


def triangle(draw: Random) -> Plan:
    """tril and triu of the last two dimensions, with a diagonal, and a chain on what stays."""
    lower = draw.random() < 0.5
    name, sign = ("tril", "<=") if lower else ("triu", ">=")
    before = Chain(())
    if draw.random() < 0.6:
        before = chain(draw, 1)
        name = f"{before.names[0]}_{name}"
    # Nearly square: in a flat matrix a triangle may leave out half of the columns, and the task would not need them.
    side = draw.randint(4, 16)
    shape = [*([draw.randint(2, 5)] * draw.randint(0, 1)), side, side + draw.randint(-1, 1)]
    diagonal = str(draw.choice((-1, 0, 0, 1, 2)))
    parameters = (
        tensor("input", "a matrix or a batch of them", drawn(shape, domain=before.domain)),
        Parameter("diagonal", "int", "which diagonal is the border; 0 is the main one", default="0", given=diagonal),
        *(scalar.parameter(keyword=True) for scalar in before.scalars),
    )
    scalars = [scalar.name for scalar in before.scalars]
    lines = [
        "x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)",
        *before.lines("x", "x"),
        "col = offsets % n_cols",
        "line = offsets // n_cols % n_lines",
        f"y = tl.where(col - line {sign} diagonal, x, 0.0)",
    ]
    block, kind = block_of(draw), name.rpartition("_")[2]
    which = "below and on" if lower else "above and on"
    first = f"Of every element it {before.words}. Then it keeps" if before.steps else "Keeps"
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"{first} what lies {which} the given diagonal of the last two dimensions and sets the rest to zero.",
        formula="; ".join(
            [f"out[i, j] = {before.math('x')} if j - i {sign} diagonal else 0, x = input[i, j]", *before.definitions]
        ),
        shapes=("input: (*, M, N)", "output: the shape of `input`"),
        reference=(f"return torch.{kind}({before.torch('input')}, diagonal)",),
        kernels=flat_kernel(name, ["x_ptr"], ["n_lines", "n_cols", "diagonal", *scalars], lines),
        body=(
            "x = input.contiguous()",
            "n_lines, n_cols = x.shape[-2:]",
            "out = torch.empty_like(x)",
            *launch(name, ["x", "out", "n_elements", "n_lines", "n_cols", "diagonal", *scalars], block),
        ),
        said=(f"{flat_said(block)}; row and column follow from the flat index, so batches need nothing special.",),
    )


def gate(draw: Random) -> Plan:
    """Gated units: the tensor is split in two along `dim`."""
    steps = {"glu": "sigmoid", "swiglu_split": "silu", "geglu": "gelu", "reglu": "relu", "tanh_glu": "tanh"}
    name = draw.choice(list(steps))
    step = _step(steps[name])
    shape = [max(size, 2) for size in shape_of(draw, draw.choice((2, 3)))]
    place = draw.randrange(len(shape))
    shape[place] *= 2
    dim = str(place if draw.random() < 0.5 else place - len(shape))
    parameters = (
        tensor("input", "the input tensor; its size along `dim` is even", drawn(shape)),
        Parameter("dim", "int", "the dimension that is split in two halves", default="-1", given=dim),
    )
    lines = [
        "# half * inner elements of the first half are followed by as many of the second",
        "place = offsets // span * 2 * span + offsets % span",
        "a = tl.load(x_ptr + place, mask=mask).to(tl.float32)",
        "b = tl.load(x_ptr + place + span, mask=mask).to(tl.float32)",
        f"y = a * ({step.steps[0].triton.format(x='b')})",
    ]
    block = block_of(draw)
    return Plan(
        name=name,
        parameters=parameters,
        summary="Splits `input` along `dim` into two halves a and b and multiplies a by an activation of b, which "
        f"{step.words}.",
        formula="; ".join([f"out = a * {step.math('b')}", *step.definitions]),
        shapes=("input: any shape with an even size along `dim`", "output: that size halved"),
        reference=("a, b = torch.chunk(input, 2, dim=dim)", f"return a * {step.torch('b')}"),
        kernels=flat_kernel(name, ["x_ptr"], ["span"], lines),
        body=(
            "x = input.contiguous()",
            "dim = dim % x.ndim",
            "half = x.shape[dim] // 2",
            "span = half * math.prod(x.shape[dim + 1 :])",
            "out = torch.empty((*x.shape[:dim], half, *x.shape[dim + 1 :]), dtype=x.dtype, device=x.device)",
            *launch(name, ["x", "out", "n_elements", "span"], block),
        ),
        said=(
            "In memory the two halves alternate in pieces of `span` elements, so both operands of a result follow from "
            f"its flat index and nothing is copied. Each program takes {block} results, masked at the end.",
        ),
    )


def linear_reduced(draw: Random) -> Plan:
    """A linear map, an activation, and a sum, mean or maximum over the features, in one kernel per row block."""
    how = draw.choice(("sum", "mean", "amax"))
    steps = chain(draw, draw.choice((1, 1, 2)), first=False, taken=frozenset(("bias", "weight", "dim")))
    name = draw.choice(("fused_linear_", "linear_")) + "_".join([*steps.names, how])
    rows, inner, features = draw.randint(3, 24), draw.randint(3, 50), draw.randint(3, 50)
    has_bias = draw.random() < 0.7
    parameters = (
        tensor("input", "the input tensor", drawn([rows, inner])),
        tensor("weight", "one row per feature", drawn([features, inner])),
        tensor("bias", "added to every row; None for none", drawn([features]) if has_bias else "", default="None"),
        *(scalar.parameter(keyword=True) for scalar in steps.scalars),
        flag("keepdim", "keep the feature dimension with size 1", draw.random() < 0.4),
    )
    scalars = [scalar.name for scalar in steps.scalars]
    empty = 'float("-inf")' if how == "amax" else "0.0"
    fold = "total = tl.maximum(total, tl.max(y, axis=1))" if how == "amax" else "total += tl.sum(y, axis=1)"
    block_m, block_n, block_k = draw.choice((16, 32)), draw.choice((16, 32)), draw.choice((16, 32))
    product = [
        "ks = start + tl.arange(0, BLOCK_K)",
        "a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)",
        "w = tl.load(w_ptr + cols[None, :] * K + ks[:, None], mask=(cols[None, :] < N) & (ks[:, None] < K), other=0.0)",
        'acc = tl.dot(a, w, acc, input_precision="ieee")',
    ]
    lines = [
        "rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)",
        f"total = tl.full([BLOCK_M], {empty}, dtype=tl.float32)",
        "for first in range(0, N, BLOCK_N):",
        "    cols = first + tl.arange(0, BLOCK_N)",
        "    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "    for start in range(0, K, BLOCK_K):",
        *indented(product, 8).split("\n"),
        "    if HAS_BIAS:",
        "        acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]",
        *indented(steps.lines("acc", "acc")).split("\n"),
        f"    y = tl.where(cols[None, :] < N, acc, {empty})",
        f"    {fold}",
        *(["total = total / N"] * (how == "mean")),
        "tl.store(out_ptr + rows, total, mask=rows < M)",
    ]
    arguments = ", ".join(["a_ptr", "w_ptr", "bias_ptr", "out_ptr", "M", "N", "K", *scalars])
    words = {"sum": "adds up the features", "mean": "averages the features", "amax": "takes the largest feature"}[how]
    given = ", ".join(["a", "w", "bias", "out", "M", "N", "K", *scalars])
    maths = {"sum": "sum_j {}", "mean": "1 / N * sum_j {}", "amax": "max_j {}"}[how]
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Applies a linear map with an optional bias, then {steps.words}, and at last {words} of every row.",
        formula="; ".join(
            [f"out = {maths.format(steps.math('z'))}, z = input @ weight^T + bias", *steps.definitions]
        ),
        shapes=("input: (M, K)", "weight: (N, K)", "bias: (N,) or None", "output: (M,), or (M, 1) with `keepdim`"),
        reference=(
            f"y = {steps.torch('F.linear(input, weight, bias)')}",
            f"return torch.{how}(y, dim=-1, keepdim=keepdim)",
        ),
        kernels=f"@triton.jit\ndef {name}_kernel(\n    {arguments},\n    HAS_BIAS: tl.constexpr, "
        f"BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,\n):\n{indented(lines)}\n",
        body=(
            "a, w = input.contiguous(), weight.contiguous()",
            "M, K = a.shape",
            "N = w.shape[0]",
            "out = torch.empty((M, 1) if keepdim else (M,), dtype=a.dtype, device=a.device)",
            f"{name}_kernel[(triton.cdiv(M, {block_m}),)](",
            f"    {given},",
            f"    HAS_BIAS=bias is not None, BLOCK_M={block_m}, BLOCK_N={block_n}, BLOCK_K={block_k},",
            ")",
            "return out",
        ),
        said=(
            f"A program owns {block_m} rows. It walks over the features in tiles of {block_n}; each tile is a product "
            "by `tl.dot` over blocks of K, goes through the activation in registers, and is folded into one number per "
            "row, so the wide intermediate is never stored.",
            "Features behind the last one would not be zero after the bias and the activation, so they are masked again "
            "before they are folded in.",
        ),
    )  # fmt: skip


def _step(name: str) -> Chain:
    return Chain(tuple(step for step in STEPS if step.name == name))
