"""Pooling, adaptive pooling, upsampling and pixel shuffling."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value

Arg = LayerArgument


def _pool(rank: int, kind: str) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x, rng = operands[0], builder.rng
        if x.rank != rank + 2:
            return None
        kernel = rng.choice((2, 2, 3, 3, 4))
        stride = rng.choice((kernel, kernel, 1, 2))
        padding = rng.choice((0, 0, 0, kernel // 2))
        dilation = rng.choice((1, 1, 1, 2)) if kind == "max" else 1
        ceil = rng.random() < 0.12
        include = kind == "avg" and rng.random() < 0.15
        span = dilation * (kernel - 1) + 1
        sizes = []
        for size in x.shape[2:]:
            room = size + 2 * padding - span
            if room < 0:
                return None
            count = (math.ceil if ceil else math.floor)(room / stride) + 1
            if ceil and (count - 1) * stride >= size + padding:
                count -= 1
            sizes.append(count)
        if kind == "avg" and any(padding and (size == 1) for size in x.shape[2:]):
            return None
        optional = [("stride", stride, kernel), ("padding", padding, 0), ("dilation", dilation, 1), ("ceil_mode", ceil, False)]  # fmt: skip
        keywords = [(key, value) for key, value, usual in optional if value != usual]
        if include:
            keywords.append(("count_include_pad", False))
        layer = (Arg(kernel, "kernel_size"), *(Arg(value, key, key) for key, value in keywords))
        written = "".join(f", {key}={value!r}" for key, value in keywords)
        return Plan((*x.shape[:2], *sizes), {"k": kernel, "kw": written}, (), layer)

    return rule


def _lp(rank: int) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        kernel = builder.rng.choice((2, 3))
        if x.rank != rank + 2 or min(x.shape[2:]) < kernel:
            return None
        sizes = tuple((size - kernel) // kernel + 1 for size in x.shape[2:])
        norm = builder.rng.choice((1, 2))
        layer = (Arg(norm, "norm_type"), Arg(kernel, "kernel_size"))
        return Plan((*x.shape[:2], *sizes), {"p": norm, "k": kernel}, (), layer, bound=x.bound * kernel**rank)

    return rule


def _adaptive(rank: int) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        if x.rank != rank + 2:
            return None
        size = builder.fixed.get("out", builder.rng.choice((1, 1, 2, 3, 4)))
        if min(x.shape[2:]) < size:
            return None
        written = (size,) * rank if rank > 1 and builder.rng.random() < 0.5 else size
        return Plan((*x.shape[:2], *([size] * rank)), {"size": written}, (), (Arg(written, "output_size"),))

    return rule


def _interpolate(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    mode = {"upsample_nearest": "nearest", "upsample_bilinear": "bilinear", "upsample_linear": "linear"}[op.name]
    if (mode == "bilinear" and x.rank != 4) or (mode == "linear" and x.rank != 3) or x.rank not in (3, 4):
        return None
    factor = builder.rng.choice((2, 2, 3))
    aligned = builder.rng.choice((True, False))
    words = [] if mode == "nearest" else [("align_corners", aligned)]
    layer = (Arg(factor, "scale_factor", "scale_factor"), Arg(mode, "mode", "mode"), *(Arg(v, k, k) for k, v in words))
    written = "".join(f", {key}={value!r}" for key, value in words)
    shape = (*x.shape[:2], *(size * factor for size in x.shape[2:]))
    return Plan(shape, {"factor": factor, "mode": mode, "kw": written}, (), layer)


def _shuffle(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 4:
        return None
    batch, channels, height, width = x.shape
    if op.name == "pixel_shuffle":
        if channels % 4:
            return None
        return Plan((batch, channels // 4, height * 2, width * 2), {"r": 2}, (), (Arg(2, "upscale_factor"),))
    if op.name == "pixel_unshuffle":
        if height % 2 or width % 2:
            return None
        return Plan((batch, channels * 4, height // 2, width // 2), {"r": 2}, (), (Arg(2, "downscale_factor"),))
    groups = [groups for groups in (2, 3, 4) if channels % groups == 0 and channels > groups]
    if not groups:
        return None
    count = builder.rng.choice(groups)
    return Plan(x.shape, {"r": count}, (), (Arg(count, "groups"),))


def _flat(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Global pooling the way it is written by hand."""
    x = operands[0]
    if x.rank < 3:
        return None
    axes = tuple(range(2, x.rank))
    return Plan(x.shape[:2], {"dims": repr(axes) if len(axes) > 1 else axes[0]})


def _pools(rank: int) -> tuple[Op, ...]:
    return (
        Op(f"max_pool{rank}d", "pooling", _pool(rank, "max"), (f"F.max_pool{rank}d({{0}}, kernel_size={{k}}{{kw}})", f"F.max_pool{rank}d({{0}}, {{k}}{{kw}})"), f"nn.MaxPool{rank}d", noun="pooled", exact=True),
        Op(f"avg_pool{rank}d", "pooling", _pool(rank, "avg"), (f"F.avg_pool{rank}d({{0}}, kernel_size={{k}}{{kw}})", f"F.avg_pool{rank}d({{0}}, {{k}}{{kw}})"), f"nn.AvgPool{rank}d", noun="pooled", half=rank < 3),
        Op(f"adaptive_avg_pool{rank}d", "pooling", _adaptive(rank), (f"F.adaptive_avg_pool{rank}d({{0}}, {{size}})",), f"nn.AdaptiveAvgPool{rank}d", noun="pooled"),
        Op(f"adaptive_max_pool{rank}d", "pooling", _adaptive(rank), (f"F.adaptive_max_pool{rank}d({{0}}, {{size}})",), f"nn.AdaptiveMaxPool{rank}d", noun="pooled", rarity=2, exact=True),
    )  # fmt: skip


OPS = (
    *_pools(1), *_pools(2), *_pools(3),
    *(Op(f"lp_pool{r}d", "pooling", _lp(r), (f"F.lp_pool{r}d({{0}}, {{p}}, {{k}})",), f"nn.LPPool{r}d", takes="pos", rarity=3, half=False) for r in (1, 2)),
    Op("global_avg_pool", "pooling", _flat, ("{0}.mean(dim={dims})", "torch.mean({0}, dim={dims})"), noun="pooled"),
    Op("global_max_pool", "pooling", _flat, ("{0}.amax(dim={dims})", "torch.amax({0}, dim={dims})"), noun="pooled", rarity=2, exact=True),
    Op("upsample_nearest", "resampling", _interpolate, ("F.interpolate({0}, scale_factor={factor}, mode='nearest')", "F.interpolate({0}, scale_factor={factor})"), "nn.Upsample", rarity=2, exact=True, noun="upsampled"),
    Op("upsample_bilinear", "resampling", _interpolate, ("F.interpolate({0}, scale_factor={factor}, mode='bilinear'{kw})",), "nn.Upsample", rarity=2, noun="upsampled", half=False),
    Op("upsample_linear", "resampling", _interpolate, ("F.interpolate({0}, scale_factor={factor}, mode='linear'{kw})",), "nn.Upsample", rarity=3, noun="upsampled", half=False),
    Op("pixel_shuffle", "resampling", _shuffle, ("F.pixel_shuffle({0}, {r})",), "nn.PixelShuffle", rarity=2, exact=True),
    Op("pixel_unshuffle", "resampling", _shuffle, ("F.pixel_unshuffle({0}, {r})",), "nn.PixelUnshuffle", rarity=3, exact=True),
    Op("channel_shuffle", "resampling", _shuffle, ("F.channel_shuffle({0}, {r})", "torch.channel_shuffle({0}, {r})"), "nn.ChannelShuffle", rarity=3, exact=True, half=False),
)  # fmt: skip
