"""Pools over the last two dimensions, alone or with an activation before or behind: the largest, the mean, and the mean
of as many windows as are asked for.
"""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    allocation,
    drawn,
    dtype_of,
    flag,
    indented,
    maybe_out,
    tensor,
)
from autotriton.data.wrappers.spatial import (
    activation,
    constants,
    each,
    kernel_text,
    launched,
    per_dimension,
    unpacked,
    window,
)
from autotriton.data.wrappers.steps import Chain

_TAKEN = frozenset(("kernel_size", "stride", "padding", "dilation"))
_WINDOW = {"max": ("kernel", "stride", "pad", "dil"), "avg": ("kernel", "stride", "pad"), "adaptive": ("window",)}
_OF = {"max": "max_pool2d", "avg": "avg_pool2d", "adaptive": "adaptive_avg_pool2d"}


def pool(draw: Random) -> Plan:
    """The largest or the mean of every window."""
    kind = draw.choice(("max", "max", "avg", "avg", "adaptive"))
    before, behind = _around(draw)
    name = _named(draw, kind, before, behind)
    dtype = dtype_of(draw)
    found = window(draw, 2, (2, 2, 3, 3, 4), (1, 2, 2, 3), (1, 1, 2) if kind == "max" else (1,), inside=True)
    lead = [draw.choice((1, 2, 3)), draw.choice((2, 3, 4))][draw.choice((0, 0, 0, 1)) :]
    parameters: list[Parameter] = [
        tensor("input", "the input, (N, C, H, W) or (C, H, W)", drawn([*lead, *found.size], dtype))
    ]
    if kind == "adaptive":
        asked = tuple(draw.randint(1, size - 1) for size in found.size)
        asked = (asked[0],) * 2 if draw.random() < 0.4 else asked
        parameters.append(per_dimension(draw, "output_size", asked, "how many windows there are", None))
    else:
        stepped = found.stride if draw.random() < 0.6 else found.kernel
        stride = per_dimension(draw, "stride", stepped, "step from window to window; None takes `kernel_size`", "None")
        if stepped == found.kernel and draw.random() < 0.7:
            stride = Parameter(stride.name, stride.kind, stride.about, stride.default)
        parameters += [
            per_dimension(draw, "kernel_size", found.kernel, "size of the window", None),
            stride,
            per_dimension(draw, "padding", found.padding, "what is added on both sides, at most half a window", "0"),
        ]
    if kind == "max":
        parameters.append(per_dimension(draw, "dilation", found.dilation, "distance of the elements of a window", "1"))
        if draw.random() < 0.5:
            parameters.append(flag("ceil_mode", "round the number of windows up, not down", draw.random() < 0.6))
    if kind == "avg":
        about = "whether padding counts in the divisor"
        given = draw.choice(("", "False", "True"))
        parameters.append(Parameter("count_include_pad", "bool", about, default="True", given=given))
    parameters += [scalar.parameter(keyword=draw.random() < 0.4) for scalar in (*before.scalars, *behind.scalars)]
    return _planned(draw, kind, name, before, behind, (*parameters, *maybe_out(draw, 0.2)))


def _around(draw: Random) -> tuple[Chain, Chain]:
    """Nothing, or an activation on one side."""
    where = draw.choice(("", "", "before", "behind", "behind"))
    steps = activation(draw, _TAKEN) if where else Chain(())
    return (steps, Chain(())) if where == "before" else (Chain(()), steps)


def _named(draw: Random, kind: str, before: Chain, behind: Chain) -> str:
    name = "_".join((*before.names, _OF[kind], *behind.names))
    if not (before.steps or behind.steps):
        return draw.choice((name, name, f"{name}_forward"))
    return draw.choice((name, name, f"fused_{name}"))


def _planned(
    draw: Random, kind: str, name: str, before: Chain, behind: Chain, parameters: tuple[Parameter, ...]
) -> Plan:
    block = draw.choice((128, 256, 512, 1024))
    operand = before.torch("input")
    called = {
        "max": f"F.max_pool2d({operand}, kernel_size, stride, padding, dilation)",
        "avg": f"F.avg_pool2d({operand}, kernel_size, stride, padding, False, count_include_pad)",
        "adaptive": f"F.adaptive_avg_pool2d({operand}, output_size)",
    }[kind]
    what = {"max": "takes the largest element", "avg": "averages the elements", "adaptive": "averages the elements"}[
        kind
    ]
    windows = "every window that slides over the last two dimensions"
    if kind == "adaptive":
        windows = "every one of `output_size` windows that cover the last two dimensions"
    pre = f" first {before.words}, then" if before.steps else ""
    post = f" Then it {behind.words}." if behind.steps else ""
    math = {"max": "max", "avg": "mean", "adaptive": "mean"}[kind] + f"_(p, q in window(i, j)) {before.math('x[p, q]')}"
    inner = f"({math})" if behind.steps else math
    ceils = any(parameter.name == "ceil_mode" for parameter in parameters)
    called = called.replace("dilation)", "dilation, ceil_mode)") if ceils else called
    body = [*_sizes(kind, ceils), *allocation(parameters, "torch.empty(shape, dtype=x.dtype, device=x.device)")]
    scalars = [scalar.name for scalar in (*before.scalars, *behind.scalars)]
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"It{pre} {what} of {windows}.{post}",
        formula="; ".join([f"out[i, j] = {behind.math(inner)}", _WHERE[kind], *before.definitions, *behind.definitions]),
        shapes=(
            "input: (N, C, H, W) or (C, H, W)",
            _SHAPES[kind] + ", rounded up with `ceil_mode` as long as the last window begins inside" * ceils,
        ),
        reference=(f"return {behind.torch(called)}",),
        kernels=pool_kernel(name, kind, before, behind),
        body=(*body, *_launch(name, block, kind, scalars), "return out"),
        said=(
            f"Each program takes {block} results, masked at the end, and finds plane, row and column from the flat index. "
            + _LOOPS[kind],
            _ARGUMENTS[kind],
        ),
    )  # fmt: skip


_WHERE = {
    "max": "window(i, j): p = i * stride + a * dilation - padding, 0 <= a < kernel_size, and q from j likewise",
    "avg": "window(i, j): p = i * stride + a - padding, 0 <= a < kernel_size, and q from j likewise",
    "adaptive": "window(i, j): floor(i * H / out_h) <= p < ceil((i + 1) * H / out_h), and q from j, W and out_w likewise",
}
_SHAPES = {
    "max": "output: (*, out_h, out_w), with out = (size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1",
    "avg": "output: (*, out_h, out_w), with out = (size + 2 * padding - kernel_size) // stride + 1",
    "adaptive": "output: (*, out_h, out_w), which is `output_size`",
}
_LOOPS = {
    "max": "It loops over the window; what lies in the padding is masked and counts as minus infinity.",
    "avg": "It loops over the window; what lies in the padding is masked and counts as 0.",
    "adaptive": "Windows differ in size: the loop runs as far as the largest may, and a mask ends the others.",
}
_ARGUMENTS = {
    "max": "Every argument may be a number or a tuple, and a `stride` of None is `kernel_size`.",
    "avg": "Every argument may be a number or a tuple, and a `stride` of None is `kernel_size`. Whether padding counts in "
    "the divisor is a `tl.constexpr`.",
    "adaptive": "`output_size` may be a number or a tuple.",
}


_INSIDE = ("if (out_{0} - 1) * stride_{0} >= in_{0} + pad_{0}:  # a window begins inside", "    out_{0} -= 1")


def _sizes(kind: str, ceils: bool) -> list[str]:
    """From the arguments to every size the kernel needs."""
    head, shape = ["x = input.contiguous()", "in_h, in_w = x.shape[-2:]"], "shape = (*x.shape[:-2], out_h, out_w)"
    if kind == "adaptive":
        largest = "window_{0} = triton.cdiv(in_{0}, out_{0}) + 1"
        return [*head, unpacked("output_size", "out", 2), *(largest.format(letter) for letter in "hw"), shape]
    span = "dil_{0} * (kernel_{0} - 1) - 1" if kind == "max" else "kernel_{0}"
    rounded = " + round_{0}" if ceils else ""
    formula = f"out_{{0}} = (in_{{0}} + 2 * pad_{{0}} - {span}{rounded}) // stride_{{0}} + 1"
    return [
        *head,
        "stride = kernel_size if stride is None else stride",
        unpacked("kernel_size", "kernel", 2),
        unpacked("stride", "stride", 2),
        unpacked("padding", "pad", 2),
        *([unpacked("dilation", "dil", 2)] * (kind == "max")),
        *(["round_h, round_w = (stride_h - 1, stride_w - 1) if ceil_mode else (0, 0)"] * ceils),
        *(formula.format(letter) for letter in "hw"),
        *((line.format(letter) for letter in "hw" for line in _INSIDE) if ceils else ()),
        shape,
    ]


def _launch(name: str, block: int, kind: str, scalars: list[str]) -> list[str]:
    """Of sizes that have the kernel's names."""
    flags = ["COUNT_PAD=count_include_pad"] * (kind == "avg")
    return [
        "n_elements = out.numel()",
        f"grid = (triton.cdiv(n_elements, {block}),)",
        *launched(
            name,
            "grid",
            (
                ["x", "out", "n_elements", *each(2, "in", "out")],
                [*each(2, *_WINDOW[kind]), *scalars],
                [*flags, f"BLOCK={block}"],
            ),
        ),
    ]


def pool_kernel(name: str, kind: str, before: Chain, behind: Chain) -> str:
    padding = 'float("-inf")' if kind == "max" else "0.0"
    loads = f"x = tl.load(x_ptr + (plane * in_h + h) * in_w + w, mask=reached, other={padding}).to(tl.float32)"
    taps = [*_taps(kind), loads, *before.lines("x", "x")]
    if before.steps:
        taps.append(f"x = tl.where(reached, x, {padding})")
    taps += {
        "max": ["acc = tl.maximum(acc, x)"],
        "avg": ["acc += x", "count += tl.where(reached, 1.0, 0.0)"],
        "adaptive": ["acc += x"],
    }[kind]
    side = "window" if kind == "adaptive" else "kernel"
    lines = [
        "offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < n_elements",
        "out_j = offsets % out_w",
        "out_i = offsets // out_w % out_h",
        "plane = offsets // (out_w * out_h)",
        *_before(kind),
        f"acc = tl.full([BLOCK], {padding}, dtype=tl.float32)",
        *(["count = tl.zeros([BLOCK], dtype=tl.float32)"] * (kind == "avg")),
        f"for i in range(0, {side}_h):",
        f"    for j in range(0, {side}_w):",
        *indented(taps, 8).split("\n"),
        *_divided(kind),
        *behind.lines("y", "y"),
        "tl.store(out_ptr + offsets, y, mask=mask)",
    ]
    scalars = [scalar.name for scalar in (*before.scalars, *behind.scalars)]
    return kernel_text(
        name,
        (
            ["x_ptr", "out_ptr", "n_elements", *each(2, "in", "out")],
            [*each(2, *_WINDOW[kind]), *scalars],
            constants([*(["COUNT_PAD"] * (kind == "avg")), "BLOCK"]),
        ),
        lines,
    )


def _taps(kind: str) -> list[str]:
    if kind == "adaptive":
        return ["h = first_h + i", "w = first_w + j", "reached = mask & (h < last_h) & (w < last_w)"]
    step = " * dil_{0}" if kind == "max" else ""
    place = f"{{0}} = out_{{1}} * stride_{{0}} - pad_{{0}} + {{1}}{step}"
    return [
        *(place.format(letter, tap) for letter, tap in ("hi", "wj")),
        "reached = mask & (h >= 0) & (h < in_h) & (w >= 0) & (w < in_w)",
    ]


def _before(kind: str) -> list[str]:
    if kind != "adaptive":
        return []
    first, last = (
        "first_{0} = out_{1} * in_{0} // out_{0}",
        "last_{0} = ((out_{1} + 1) * in_{0} + out_{0} - 1) // out_{0}",
    )
    return [line.format(letter, tap) for letter, tap in ("hi", "wj") for line in (first, last)]


def _divided(kind: str) -> list[str]:
    if kind == "max":
        return ["y = acc"]
    if kind == "adaptive":
        return ["y = acc / ((last_h - first_h) * (last_w - first_w)).to(tl.float32)"]
    return ["if COUNT_PAD:", "    y = acc / (kernel_h * kernel_w)", "else:", "    y = acc / count"]
