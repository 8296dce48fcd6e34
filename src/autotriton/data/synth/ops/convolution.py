"""Convolutions and transposed convolutions in one to three dimensions, with stride, padding, dilation and groups."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value, Wanted

Arg = LayerArgument


def _kernel(builder: Builder, spatial: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(spatial)
    size = builder.rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 5, 7) if rank < 3 else (1, 2, 3, 3, 3))
    kernel = [size] * rank
    if rank > 1 and builder.rng.random() < 0.15:
        kernel = [builder.rng.choice((1, 3, 5)) for _ in range(rank)]
    return tuple(kernel)


def _written(values: tuple[int, ...]) -> Any:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else values


def _spread(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (int(value),) * rank


def _groups(builder: Builder, given: int, out: int) -> int:
    if "groups" in builder.fixed:
        return int(builder.fixed["groups"])
    fits = [groups for groups in (2, 3, 4, 8, given) if groups > 1 and given % groups == 0 and out % groups == 0]
    return builder.rng.choice(fits) if fits and builder.rng.random() < 0.2 else 1


def _convolution(rank: int, transposed: bool) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x, rng = operands[0], builder.rng
        if x.rank != rank + 2:
            return None
        given, spatial = x.shape[1], x.shape[2:]
        out = int(builder.fixed.get("out", builder.size("channels")))
        kernel = builder.fixed.get("kernel") or _kernel(builder, spatial)
        strides = _spread(builder.fixed.get("stride", rng.choice((1, 1, 1, 2, 2, 3))), rank)
        dilations = _spread(builder.fixed.get("dilation", rng.choice((1, 1, 1, 1, 2))), rank)
        padding = builder.fixed.get("padding")
        if padding == "same":
            strides, kernel = (1,) * rank, tuple(size | 1 for size in kernel)
            pads = tuple(d * (size - 1) // 2 for d, size in zip(dilations, kernel, strict=True))
        else:
            pad = rng.choice((0, 0, 1, kernel[0] // 2))
            given_pads = _spread(pad if padding is None else padding, rank)
            pads = tuple(min(p, size - 1) if transposed else p for p, size in zip(given_pads, kernel, strict=True))
        groups = _groups(builder, given, out)
        extra = rng.randrange(min(strides)) if transposed and min(strides) > 1 and rng.random() < 0.4 else 0
        along = list(zip(spatial, pads, kernel, strides, dilations, strict=True))
        if transposed:
            sizes = tuple((n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, p, k, s, d in along)
        else:
            sizes = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, k, s, d in along)
        if min(sizes) < 1 or any(n + 2 * p < d * (k - 1) + 1 for n, p, k, _, d in along):
            return None
        work = x.shape[0] * out * math.prod(kernel) * (given // groups) * math.prod(spatial if transposed else sizes)
        if work > builder.sizes.work:
            return None
        bias = bool(builder.fixed.get("bias", rng.random() < 0.7))
        optional = [("stride", _written(strides), 1), ("padding", _written(pads), 0), ("output_padding", extra, 0), ("dilation", _written(dilations), 1), ("groups", groups, 1)]  # fmt: skip
        keywords = [(key, value) for key, value, usual in optional if value != usual]
        layer = [Arg(given, "in_channels"), Arg(out, "out_channels"), Arg(_written(kernel), "kernel_size")]
        layer += [Arg(value, key, key) for key, value in keywords]
        if not bias:
            layer.append(Arg(False, "bias", "bias"))
        fan = given // groups * math.prod(kernel)
        shape = (given, out // groups, *kernel) if transposed else (out, given // groups, *kernel)
        weights = (Wanted("weight", shape, "real", 1.0 / math.sqrt(fan)), *((Wanted("bias", (out,), "real", 0.1),) if bias else ()))  # fmt: skip
        written = "".join(f", {key}={value!r}" for key, value in keywords)
        return Plan((x.shape[0], out, *sizes), {"kw": written}, weights, tuple(layer), bound=4.0)

    return rule


def _same_padding(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """`padding="same"`, written as a word."""
    x = operands[0]
    out, kernel = builder.size("channels"), builder.rng.choice((1, 3, 5))
    if x.rank != 4 or x.elements * out * kernel * kernel > builder.sizes.work:
        return None
    layer = (Arg(x.shape[1], "in_channels"), Arg(out, "out_channels"), Arg(kernel, "kernel_size"), Arg("same", "padding", "padding"))  # fmt: skip
    return Plan((x.shape[0], out, *x.shape[2:]), {}, (), layer, bound=4.0)


def _unfold(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    kernel, stride = builder.rng.choice((2, 3)), builder.rng.choice((1, 2))
    if x.rank != 4 or min(x.shape[2:]) < kernel:
        return None
    count = math.prod((size - kernel) // stride + 1 for size in x.shape[2:])
    return Plan((x.shape[0], x.shape[1] * kernel * kernel, count), {"k": kernel, "s": stride})


def _fold(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    kernel = 2
    if x.rank != 3 or x.shape[1] % 4:
        return None
    side = math.isqrt(x.shape[2])
    if side * side != x.shape[2]:
        return None
    size = (side - 1) * 1 + kernel
    return Plan((x.shape[0], x.shape[1] // 4, size, size), {"size": (size, size), "k": kernel}, bound=4 * x.bound)


OPS = (
    *(Op(f"conv{r}d", "convolution", _convolution(r, False), (f"F.conv{r}d({{0}}, {{w}}{{kw}})",), f"nn.Conv{r}d", noun="conv_out") for r in (1, 2, 3)),
    *(Op(f"conv_transpose{r}d", "convolution", _convolution(r, True), (f"F.conv_transpose{r}d({{0}}, {{w}}{{kw}})",), f"nn.ConvTranspose{r}d", noun="upsampled", rarity=2) for r in (1, 2, 3)),
    Op("conv2d_same", "convolution", _same_padding, (), "nn.Conv2d", rarity=2, noun="conv_out"),
    Op("unfold2d", "convolution", _unfold, ("F.unfold({0}, kernel_size={k}, stride={s})",), rarity=3, exact=True),
    Op("fold2d", "convolution", _fold, ("F.fold({0}, output_size={size}, kernel_size={k})",), rarity=3),
)  # fmt: skip
