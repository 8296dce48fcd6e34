"""Convolutions over one or two dimensions, alone or with what follows them: batch norm, an added tensor, activations, a
pool. Direct: a program has a block of positions of one image and one output channel.
"""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    allocation,
    drawn,
    dtype_of,
    indented,
    maybe_out,
    tensor,
)
from autotriton.data.wrappers.following import Parts, follow
from autotriton.data.wrappers.pooling import pool_kernel
from autotriton.data.wrappers.spatial import (
    LETTERS,
    Window,
    constants,
    each,
    kernel_text,
    launched,
    per_dimension,
    unpacked,
    window,
)
from autotriton.data.wrappers.steps import Chain

_SUM = {
    1: "conv(x)[n, o, i] = sum_(c, p) weight[o, c, p] * x[n, c, i * stride + p * dilation - padding]",
    2: "conv(x)[n, o, i, j] = sum_(c, p, q) weight[o, c, p, q] * x[n, c, i * stride + p * dilation - padding, "
    "j * stride + q * dilation - padding]",
}


def convolution(draw: Random) -> Plan:
    """Without anything behind it in a third of the cases."""
    rank = draw.choice((1, 2, 2, 2, 2))
    found = window(draw, rank, (1, 2, 3, 3, 3), (1, 1, 2), (1, 1, 1, 2), inside=False)
    groups = draw.choice((1, 1, 1, 2, 3))
    in_channels, out_channels = groups * draw.choice((1, 2, 3)), groups * draw.choice((1, 2, 3))
    dtype, parts = dtype_of(draw), Parts()
    sizes = [draw.choice((1, 2, 3)), in_channels, *found.size]
    if draw.random() < 0.7:
        follow(draw, parts, [sizes[0], out_channels, *found.out], dtype)
    pooled = rank == 2 and bool(parts.names) and draw.random() < 0.15
    name = _named(draw, rank, [*parts.names, *(["max_pool2d"] * pooled)])
    weight = [out_channels, in_channels // groups, *found.kernel]
    given_bias = drawn([out_channels], dtype) if draw.random() < 0.65 else ""
    parameters = (
        tensor("input", f"the input, {_shape('N, C', rank)}", drawn(sizes, dtype)),
        tensor("weight", "the filters, one per output channel", drawn(weight, dtype)),
        *parts.required,
        tensor("bias", "one number per output channel; None for none", given_bias, default="None"),
        *_geometry(draw, found, groups),
        *parts.optional,
        *((Parameter("pool_size", "int", "side of the window that is pooled", default="2", given="2"),) if pooled else ()),
        *(maybe_out(draw, 0.25) if not pooled else ()),
    )  # fmt: skip
    return _planned(draw, name, rank, parts, parameters, pooled)


def _geometry(draw: Random, found: Window, groups: int) -> list[Parameter]:
    return [
        per_dimension(draw, "stride", found.stride, "step from window to window", "1"),
        per_dimension(draw, "padding", found.padding, "zeros added on both sides", "0"),
        per_dimension(draw, "dilation", found.dilation, "distance of the taps", "1"),
        Parameter("groups", "int", "groups of channels that do not see each other", "1", given="" if groups == 1 else str(groups)),
    ]  # fmt: skip


def _named(draw: Random, rank: int, behind: list[str]) -> str:
    """In the order of the work, or as nested calls are read."""
    conv = f"conv{rank}d"
    if not behind:
        return draw.choice((conv, conv, conv, f"{conv}_forward", f"direct_{conv}"))
    name = "_".join((conv, *behind) if draw.random() < 0.5 else (*behind[::-1], conv))
    return draw.choice((name, name, f"fused_{name}", f"{name}_fused"))


def _planned(draw: Random, name: str, rank: int, parts: Parts, parameters: tuple[Parameter, ...], pooled: bool) -> Plan:
    block = draw.choice((64, 128, 256, 256))
    conv = f"conv{rank}d" if pooled else name
    called = f"F.conv{rank}d(input, weight, bias, stride, padding, dilation, groups)"
    reference = [f"return {called}"]
    if parts.names:
        reference = [f"y = {called}", *parts.reference, f"return {'F.max_pool2d(y, pool_size)' if pooled else 'y'}"]
    after = f" Then it {', then '.join(parts.words)}." if parts.words else ""
    after += " At last it takes the largest of every window of `pool_size` by `pool_size`." * pooled
    math = f"max_pool2d({parts.math})" if pooled else parts.math
    body = [*_sizes(rank), f"shape = (batch, out_channels, {', '.join(each(rank, 'out'))})", *parts.body]
    made = "torch.empty(shape, dtype=x.dtype, device=x.device)"
    body += [f"y = {made}"] if pooled else allocation(parameters, made)
    body += _launch(conv, rank, parts, block, "y" if pooled else "out")
    kernels = _kernel(conv, rank, parts)
    if pooled:
        kernels = f"{kernels}\n\n{pool_kernel('max_pool2d', 'max', Chain(()), Chain(()))}"
        body += _pooled(draw.choice((256, 512, 1024)))
    out = ", ".join(f"out_{letter}" for letter in LETTERS[rank])
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Convolves `input` with the filters `weight` over {'its last dimension' if rank == 1 else 'its last two dimensions'}, "
        f"and adds `bias` where there is one.{after}",
        formula="; ".join([f"out = {math}", _SUM[rank], *parts.definitions]),
        shapes=(
            f"input: {_shape('N, C_in', rank)}",
            f"weight: {_shape('C_out, C_in / groups', rank, 'k')}",
            "bias: (C_out,) or None",
            *(["bn_weight, bn_bias, running_mean, running_var: (C_out,)"] * ("batch_norm" in parts.names)),
            f"output: (N, C_out, {out}), with out = (size + 2 * padding - dilation * (k - 1) - 1) // stride + 1"
            f"{', then divided by pool_size' if pooled else ''}",
        ),
        reference=tuple(reference),
        kernels=kernels,
        body=(*body, "return out"),
        said=(
            f"Direct convolution: one program computes {block} output positions of one image and one output channel. It "
            "loops over the input channels of its group and over the taps, and adds up in fp32; positions in the padding "
            "are masked and count as 0.",
            "`stride`, `padding` and `dilation` may be a number or a tuple: they become one number per dimension first. "
            "Whether there is a bias is a `tl.constexpr`.",
            *parts.said,
            *(["What follows the convolution works on the accumulator."] if parts.names else []),
            *(["The pool is a second kernel over the stored result."] if pooled else []),
        ),
    )  # fmt: skip


def _sizes(rank: int) -> list[str]:
    formula = "(in_{0} + 2 * pad_{0} - dil_{0} * (kernel_{0} - 1) - 1) // stride_{0} + 1"
    return [
        "x, w = input.contiguous(), weight.contiguous()",
        unpacked("stride", "stride", rank),
        unpacked("padding", "pad", rank),
        unpacked("dilation", "dil", rank),
        f"batch, in_channels, {', '.join(each(rank, 'in'))} = x.shape",
        f"out_channels, group_in, {', '.join(each(rank, 'kernel'))} = w.shape",
        *(f"out_{letter} = {formula.format(letter)}" for letter in LETTERS[rank]),
    ]


def _pooled(block: int) -> list[str]:
    """The pool's window has no padding, so its sizes are few."""
    return [
        "conv_h, conv_w = out_h, out_w",
        "out_h, out_w = conv_h // pool_size, conv_w // pool_size",
        "out = torch.empty((batch, out_channels, out_h, out_w), dtype=x.dtype, device=x.device)",
        "n_elements = out.numel()",
        f"grid = (triton.cdiv(n_elements, {block}),)",
        "max_pool2d_kernel[grid](",
        "    y, out, n_elements, conv_h, conv_w, out_h, out_w,",
        f"    pool_size, pool_size, pool_size, pool_size, 0, 0, 1, 1, BLOCK={block},",
        ")",
    ]


def _launch(name: str, rank: int, parts: Parts, block: int, out: str) -> list[str]:
    positions = " * ".join(each(rank, "out"))
    return [
        f"grid = (batch * out_channels, triton.cdiv({positions}, {block}))",
        *launched(
            name,
            "grid",
            (
                ["x", "w", "bias", *(given for _, given in parts.pointers), out],
                ["in_channels", "out_channels", "group_in", "out_channels // groups"],
                each(rank, "in", "out", "kernel"),
                each(rank, "stride", "pad", "dil"),
                [given for _, given in parts.scalars],
                ["HAS_BIAS=bias is not None", *(given for _, given in parts.flags), f"BLOCK={block}"],
            ),
        ),
    ]


def _kernel(name: str, rank: int, parts: Parts) -> str:
    taps = "ij"[:rank]
    letters = LETTERS[rank]
    source, filters = (
        "x_image + c * " + " * ".join(each(rank, "in")),
        "w_channel + c * " + " * ".join(each(rank, "kernel")),
    )
    if rank == 2:
        place, tap = "h * in_w + w", "i * kernel_w + j"
        coordinates = ["out_i = offsets // out_w", "out_j = offsets % out_w"]
    else:
        place, tap = "l", "i"
        coordinates = ["out_i = offsets"]
    inside = [
        *(f"{letter} = out_{t} * stride_{letter} - pad_{letter} + {t} * dil_{letter}" for t, letter in zip(taps, letters, strict=True)),
        "reached = mask & " + " & ".join(f"({letter} >= 0) & ({letter} < in_{letter})" for letter in letters),
        f"x = tl.load({source} + {place}, mask=reached, other=0.0).to(tl.float32)",
        f"acc += x * tl.load({filters} + {tap}).to(tl.float32)",
    ]  # fmt: skip
    for t, letter in reversed(list(zip(taps, letters, strict=True))):
        inside = [f"for {t} in range(0, kernel_{letter}):", *indented(inside).split("\n")]
    positions, window_size = " * ".join(each(rank, "out")), " * ".join(each(rank, "kernel"))
    lines = [
        "plane = tl.program_id(0).to(tl.int64)",
        "image = plane // out_channels",
        "channel = plane % out_channels",
        "offsets = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        f"mask = offsets < {positions}",
        *coordinates,
        f"x_image = x_ptr + (image * in_channels + channel // group_out * group_in) * {' * '.join(each(rank, 'in'))}",
        f"w_channel = w_ptr + channel * group_in * {window_size}",
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
        "for c in range(0, group_in):",
        *indented(inside).split("\n"),
        "if HAS_BIAS:",
        "    acc += tl.load(bias_ptr + channel).to(tl.float32)",
        *(["y = acc"] * bool(parts.lines)),
        *([f"place = plane * {positions} + offsets"]),
        *parts.lines,
        f"tl.store(out_ptr + place, {'y' if parts.lines else 'acc'}, mask=mask)",
    ]
    return kernel_text(
        name,
        (
            ["x_ptr", "w_ptr", "bias_ptr", *(pointer for pointer, _ in parts.pointers), "out_ptr"],
            ["in_channels", "out_channels", "group_in", "group_out"],
            each(rank, "in", "out", "kernel"),
            each(rank, "stride", "pad", "dil"),
            [name for name, _ in parts.scalars],
            constants(["HAS_BIAS", *(flag for flag, _ in parts.flags), "BLOCK"]),
        ),
        lines,
    )


def _shape(lead: str, rank: int, side: str = "") -> str:
    sizes = {1: "L", 2: "H, W"}[rank] if not side else {1: "k", 2: "kH, kW"}[rank]
    return f"({lead}, {sizes})"
