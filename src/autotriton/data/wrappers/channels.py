"""Norms of channels, with an activation behind them in half of the cases: batch norm with given statistics or those of
the batch, instance norm, group norm. Any number of dimensions behind the channels.
"""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, Scalar, drawn, dtype_of, flag, indented, tensor
from autotriton.data.wrappers.spatial import activation, constants, kernel_text, launched
from autotriton.data.wrappers.steps import Chain

_EPS = Scalar("eps", "1e-5", 0.001, 0.1, "added to the variance")
_MOMENTUM = Scalar("momentum", "0.1", 0.05, 0.5, "share of the batch in the new running statistics")
_TAKEN = frozenset(("eps", "weight", "bias", "momentum"))
_ZERO, _LOOP = "acc = tl.zeros([BLOCK], dtype=tl.float32)", "for start in range(0, n_cols, BLOCK):"
_SQUARED = ("x = tl.where(mask, x - mean, 0.0)", "acc += x * x")
_ABSENT = (
    "Whether there is a weight or a bias is a `tl.constexpr`; the pointer of an absent one is None and never read."
)
_TWICE = "The variance is summed from centred values in a pass of its own, which does not cancel."


def batch_norm(draw: Random) -> Plan:
    """Half of them know `training`: with it the statistics come from a kernel of their own."""
    behind = activation(draw, _TAKEN) if draw.random() < 0.5 else Chain(())
    name, shape = _named(draw, "batch_norm", behind), _shape(draw, (2, 3, 4, 4, 5))
    both, trains = draw.random() < 0.6, draw.random() < 0.4
    trains = both and trains
    channels = [shape[1]]
    parameters = (
        tensor("input", "the input tensor, channels in dimension 1", drawn(shape, dtype_of(draw))),
        tensor("running_mean", "mean of every channel" + "; may be None in training" * both, "None" if trains else drawn(channels)),
        tensor("running_var", "variance of every channel" + "; may be None in training" * both, "None" if trains else drawn(channels, domain="positive")),
        *_affine(draw, channels),
        *((flag("training", "normalize with the batch's own statistics and update the running ones", trains), _MOMENTUM.parameter()) if both else ()),
        _EPS.parameter(),
        *(scalar.parameter(keyword=draw.random() < 0.5) for scalar in behind.scalars),
    )  # fmt: skip
    block, row_block = draw.choice((256, 512, 1024)), draw.choice((256, 512, 1024))
    scalars = ["eps", *(scalar.name for scalar in behind.scalars)]
    kernels = _pointwise_kernel(name, scalars, behind)
    mean, var = ("mean", "var") if both else ("running_mean", "running_var")
    body = [
        "x = input.contiguous()",
        "out = torch.empty_like(x)",
        "n_elements = x.numel()",
        "channels, inner = x.shape[1], math.prod(x.shape[2:])",
        *(_batch_statistics(row_block) if both else ()),
        f"grid = (triton.cdiv(n_elements, {block}),)",
        *launched(
            name,
            "grid",
            (
                ["x", mean, var, "weight", "bias", "out", "n_elements", "channels", "inner", *scalars],
                ["HAS_WEIGHT=weight is not None", "HAS_BIAS=bias is not None", f"BLOCK={block}"],
            ),
        ),
        "return out",
    ]
    how = "with the given mean and variance"
    if both:
        how = "with the given mean and variance, or in `training` with the batch's own"
        kernels = f"{_STATISTICS}\n\n{kernels}"
    math = f"(x - mean) / sqrt(var + eps) * weight + bias, mean = {'batch mean in training, else ' * both}running_mean, var likewise"
    called = "F.batch_norm(input, running_mean, running_var, weight, bias, {}, eps)"
    return _plan(
        name,
        behind,
        parameters,
        what=f"Normalizes every channel {how}, and applies `weight` and `bias` where given.",
        math=math,
        called=called.format("training, momentum" if both else "False, 0.1"),
        kernels=kernels,
        body=body,
        said=(
            f"With its statistics known this is pointwise: each program takes {block} elements, masked at the end, and "
            "finds an element's channel from its flat index.",
            *(
                [
                    f"In training a first kernel has one program per channel: it walks over the channel's elements in all images "
                    f"in blocks of {row_block}, twice, and updates the running statistics where there are some."
                ]
                * both
            ),
            _ABSENT,
        ),
    )


def group_norm(draw: Random) -> Plan:
    """One row per group, or per channel."""
    instance = draw.random() < 0.45
    behind = activation(draw, _TAKEN) if draw.random() < 0.5 else Chain(())
    kind = "instance_norm" if instance else "group_norm"
    name = _named(draw, kind, behind)
    shape = _shape(draw, (3, 4, 4, 5) if instance else (2, 3, 4, 4, 5))
    groups = draw.choice((1, 2, 2, 3))
    shape[1] = shape[1] if instance else groups * draw.choice((2, 3, 4))
    grouped = Parameter("num_groups", "int", "how many groups the channels are divided into", given=str(groups))
    parameters = (
        tensor("input", "the input tensor, channels in dimension 1", drawn(shape, dtype_of(draw))),
        *(() if instance else (grouped,)),
        *_affine(draw, [shape[1]]),
        _EPS.parameter(),
        *(scalar.parameter(keyword=draw.random() < 0.5) for scalar in behind.scalars),
    )
    block = draw.choice((128, 256, 512, 1024))
    scalars = ["eps", *(scalar.name for scalar in behind.scalars)]
    sizes = ["n_cols", "channels"] if instance else ["n_cols", "num_groups", "group_channels", "inner"]
    body = [
        "x = input.contiguous()",
        "out = torch.empty_like(x)",
        *_rows(instance),
        *launched(
            name,
            "(x.numel() // n_cols,)",
            (
                ["x", "weight", "bias", "out", *sizes, *scalars],
                ["HAS_WEIGHT=weight is not None", "HAS_BIAS=bias is not None", f"BLOCK={block}"],
            ),
        ),
        "return out",
    ]
    over = "every channel of every image" if instance else "every group of channels of every image"
    called = "F.instance_norm(input, weight=weight, bias=bias, eps=eps)"
    return _plan(
        name,
        behind,
        parameters,
        what=f"Normalizes {over} by itself: subtracts its mean and divides by its standard deviation. Then it applies "
        "`weight` and `bias` of the channel where given.",
        math=f"(x - mean) / sqrt(var + eps) * weight + bias, mean and var over {over}",
        called=called if instance else "F.group_norm(input, num_groups, weight, bias, eps)",
        kernels=_row_kernel(name, instance, sizes, scalars, behind),
        body=body,
        said=(
            f"In memory {over} is one row of `n_cols` elements; a program takes one row, in blocks of {block}, so it may "
            "be of any length.",
            _TWICE,
            _ABSENT,
        ),
    )


def _named(draw: Random, kind: str, behind: Chain) -> str:
    if not behind.steps:
        return draw.choice((kind, kind, f"{kind}_forward"))
    name = "_".join((kind, *behind.names) if draw.random() < 0.6 else (*behind.names[::-1], kind))
    return draw.choice((name, f"fused_{name}"))


def _shape(draw: Random, dims: tuple[int, ...]) -> list[int]:
    count = draw.choice(dims)
    largest = {2: 9, 3: 40, 4: 9, 5: 5}[count]
    inner = [draw.randint(2, largest) for _ in range(count - 2)]
    if inner:
        inner[-1] = max(inner[-1], 4)
    return [draw.randint(4, 20) if count == 2 else draw.randint(2, 3), draw.randint(2, 6), *inner]


def _affine(draw: Random, channels: list[int]) -> tuple[Parameter, Parameter]:
    weight, bias = (drawn(channels) if draw.random() < 0.65 else "" for _ in range(2))
    return (
        tensor("weight", "factor of every channel; None for none", weight, default="None"),
        tensor("bias", "summand of every channel; None for none", bias, default="None"),
    )


def _plan(
    name: str,
    behind: Chain,
    parameters: tuple[Parameter, ...],
    *,
    what: str,
    math: str,
    called: str,
    kernels: str,
    body: list[str],
    said: tuple[str, ...],
) -> Plan:
    value, _, where = math.partition(", ")
    after = f" At last it {behind.words}." if behind.steps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"{what}{after}",
        formula="; ".join([f"out = {behind.math(value)}", where, *behind.definitions]),
        shapes=("input: (N, C) or (N, C, *)", "weight, bias: (C,) or None", "output: the shape of `input`"),
        reference=(f"return {behind.torch(called)}",),
        kernels=kernels,
        body=tuple(body),
        said=said,
    )


def _scaled(channel: str, mask: str) -> list[str]:
    return [
        "if HAS_WEIGHT:",
        f"    y *= tl.load(weight_ptr + {channel}{mask}).to(tl.float32)",
        "if HAS_BIAS:",
        f"    y += tl.load(bias_ptr + {channel}{mask}).to(tl.float32)",
    ]


def _pointwise_kernel(name: str, scalars: list[str], behind: Chain) -> str:
    lines = [
        "offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < n_elements",
        "channel = offsets // inner % channels",
        "x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)",
        "mean = tl.load(mean_ptr + channel, mask=mask).to(tl.float32)",
        "var = tl.load(var_ptr + channel, mask=mask, other=1.0).to(tl.float32)",
        "y = (x - mean) / tl.sqrt(var + eps)",
        *_scaled("channel", ", mask=mask"),
        *behind.lines("y", "y"),
        "tl.store(out_ptr + offsets, y, mask=mask)",
    ]
    pointers = ["x_ptr", "mean_ptr", "var_ptr", "weight_ptr", "bias_ptr", "out_ptr", "n_elements", "channels", "inner"]
    return kernel_text(name, ([*pointers, *scalars], constants(["HAS_WEIGHT", "HAS_BIAS", "BLOCK"])), lines)


def _batch_statistics(block: int) -> list[str]:
    return [
        "mean, var = running_mean, running_var",
        "if training:",
        "    mean = torch.empty((channels,), dtype=torch.float32, device=x.device)",
        "    var = torch.empty((channels,), dtype=torch.float32, device=x.device)",
        "    statistics_kernel[(channels,)](",
        "        x, mean, var, running_mean, running_var, n_elements // channels, channels, inner, momentum,",
        f"        HAS_RUNNING=running_mean is not None, BLOCK={block},",
        "    )",
    ]


def _statistics_kernel() -> str:
    load = [
        "cols = start + tl.arange(0, BLOCK)",
        "mask = cols < n_cols",
        "place = (cols // inner * channels + channel) * inner + cols % inner",
        "x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)",
    ]
    running = [
        "old_mean = tl.load(running_mean_ptr + channel).to(tl.float32)",
        "old_var = tl.load(running_var_ptr + channel).to(tl.float32)",
        "tl.store(running_mean_ptr + channel, (1.0 - momentum) * old_mean + momentum * mean)",
        "tl.store(running_var_ptr + channel, (1.0 - momentum) * old_var + momentum * var * n_cols / (n_cols - 1))",
    ]
    lines = [
        "channel = tl.program_id(0).to(tl.int64)",
        *_pass(load, ("acc += x",), "mean = tl.sum(acc, axis=0) / n_cols"),
        *_pass(load, _SQUARED, "var = tl.sum(acc, axis=0) / n_cols"),
        "tl.store(mean_ptr + channel, mean)",
        "tl.store(var_ptr + channel, var)",
        "if HAS_RUNNING:",
        *indented(running).split("\n"),
    ]
    pointers = ["x_ptr", "mean_ptr", "var_ptr", "running_mean_ptr", "running_var_ptr"]
    return kernel_text(
        "statistics",
        ([*pointers, "n_cols", "channels", "inner", "momentum"], constants(["HAS_RUNNING", "BLOCK"])),
        lines,
    )


def _pass(load: list[str], steps: tuple[str, ...], end: str) -> list[str]:
    return [_ZERO, _LOOP, *indented([*load, *steps]).split("\n"), end]


def _rows(instance: bool) -> list[str]:
    if instance:
        return ["channels, n_cols = x.shape[1], math.prod(x.shape[2:])"]
    return [
        "group_channels, inner = x.shape[1] // num_groups, math.prod(x.shape[2:])",
        "n_cols = group_channels * inner",
    ]


def _row_kernel(name: str, instance: bool, sizes: list[str], scalars: list[str], behind: Chain) -> str:
    load = [
        "cols = start + tl.arange(0, BLOCK)",
        "mask = cols < n_cols",
        "x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)",
    ]
    scaled = _scaled("channel", "") if instance else _scaled("channel", ", mask=mask")
    last = [*load, "y = (x - mean) * inv", *scaled, *behind.lines("y", "y")]
    if not instance:
        last.insert(3, "channel = row % num_groups * group_channels + cols // inner")
    last.append("tl.store(out_ptr + row * n_cols + cols, y, mask=mask)")
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        *(["channel = row % channels"] * instance),
        *_pass(load, ("acc += x",), "mean = tl.sum(acc, axis=0) / n_cols"),
        *_pass(load, _SQUARED, "inv = tl.rsqrt(tl.sum(acc, axis=0) / n_cols + eps)"),
        _LOOP,
        *indented(last).split("\n"),
    ]
    pointers = ["x_ptr", "weight_ptr", "bias_ptr", "out_ptr"]
    return kernel_text(name, ([*pointers, *sizes, *scalars], constants(["HAS_WEIGHT", "HAS_BIAS", "BLOCK"])), lines)


_STATISTICS = _statistics_kernel()
