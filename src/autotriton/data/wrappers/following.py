"""What follows a convolution: batch norm with given statistics, an added tensor or number, activations.

Must stay true: the lines work on `y`, the fp32 values of one block of one channel, and leave their result there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from autotriton.data.wrappers.base import Parameter, Scalar, drawn, tensor
from autotriton.data.wrappers.spatial import activation

_TAKEN = frozenset(("stride", "padding", "dilation", "groups", "weight", "bias", "other", "alpha", "eps"))
_EPS = Scalar("eps", "1e-5", 0.001, 0.1, "added to the variance")
_ALPHA = Scalar("alpha", "1", 0.3, 2.0, "factor of `other`")


@dataclass
class Parts:
    """What the things behind the convolution add to every text."""

    names: list[str] = field(default_factory=list)
    required: list[Parameter] = field(default_factory=list)
    optional: list[Parameter] = field(default_factory=list)
    pointers: list[tuple[str, str]] = field(default_factory=list)
    """Each as the kernel's name and what is given for it."""
    scalars: list[tuple[str, str]] = field(default_factory=list)
    flags: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    math: str = "conv(input) + bias"
    words: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def follow(draw: Random, parts: Parts, shape: list[int], dtype: str) -> None:
    """One to two things behind a convolution whose result has that shape."""
    kinds = (("act",), ("act",), ("act",), ("add",), ("add", "act"), ("act", "add"), ("norm",), ("norm", "act"))
    for kind in draw.choice(kinds):
        if kind == "act":
            _activated(draw, parts)
        elif kind == "add":
            _added(draw, parts, shape, dtype)
        else:
            _normed(draw, parts, shape[1])


def _activated(draw: Random, parts: Parts) -> None:
    steps = activation(draw, _TAKEN)
    parts.names += steps.names
    parts.optional += [scalar.parameter(keyword=draw.random() < 0.3) for scalar in steps.scalars]
    parts.scalars += [(scalar.name, scalar.name) for scalar in steps.scalars]
    parts.lines += steps.lines("y", "y")
    parts.reference += steps.torch_lines("y", "y")
    parts.math = steps.math(parts.math)
    parts.words.append(steps.words)
    parts.definitions += steps.definitions


def _added(draw: Random, parts: Parts, shape: list[int], dtype: str) -> None:
    parts.names.append("add")
    ones = [1] * (len(shape) - 2)
    broadcast = draw.choice((shape, shape, [shape[1], *ones], [1, shape[1], *ones], [1]))
    given = drawn(broadcast, dtype) if draw.random() < 0.7 else "random.uniform(0.3, 2.0)"
    about = "what is added, a tensor that broadcasts to the result or a number; None for nothing"
    parts.optional.append(Parameter("other", "Tensor or Number, optional", about, default="None", given=given))
    parts.optional.append(_ALPHA.parameter(keyword=draw.random() < 0.5))
    parts.pointers.append(("other_ptr", "added"))
    parts.scalars += [("number", "number"), ("alpha", "alpha")]
    parts.flags.append(("IS_TENSOR", "IS_TENSOR=added is not None"))
    parts.lines += [
        "if IS_TENSOR:",
        "    y += alpha * tl.load(other_ptr + place, mask=mask, other=0.0).to(tl.float32)",
        "else:",
        "    y += alpha * number",
    ]
    parts.reference += ["if other is not None:", "    y = y + alpha * other"]
    parts.body += [
        "added = other.expand(shape).contiguous() if isinstance(other, torch.Tensor) else None",
        "number = float(other) if isinstance(other, (int, float)) else 0.0",
    ]
    parts.math = f"{parts.math} + alpha * other"
    parts.words.append("adds `other`, scaled by `alpha`")
    parts.said.append(
        "`other` may be a tensor, which is expanded to the result's shape, a number, or None, which adds 0."
    )


def _normed(draw: Random, parts: Parts, channels: int) -> None:
    parts.names.append("batch_norm")
    affine = drawn([channels]) if draw.random() < 0.7 else ""
    parts.required += [
        tensor("running_mean", "mean of every output channel", drawn([channels])),
        tensor("running_var", "variance of every output channel", drawn([channels], domain="positive")),
    ]
    parts.optional += [
        tensor("bn_weight", "factor of every normalized channel; None for none", affine, default="None"),
        tensor("bn_bias", "summand of every normalized channel; None for none", affine, default="None"),
        _EPS.parameter(),
    ]
    parts.pointers += [("mean_ptr", "running_mean"), ("var_ptr", "running_var")]
    parts.pointers += [("bn_weight_ptr", "bn_weight"), ("bn_bias_ptr", "bn_bias")]
    parts.scalars.append(("eps", "eps"))
    parts.flags += [
        ("HAS_BN_WEIGHT", "HAS_BN_WEIGHT=bn_weight is not None"),
        ("HAS_BN_BIAS", "HAS_BN_BIAS=bn_bias is not None"),
    ]
    parts.lines += [
        "mean = tl.load(mean_ptr + channel).to(tl.float32)",
        "var = tl.load(var_ptr + channel).to(tl.float32)",
        "y = (y - mean) / tl.sqrt(var + eps)",
        "if HAS_BN_WEIGHT:",
        "    y *= tl.load(bn_weight_ptr + channel).to(tl.float32)",
        "if HAS_BN_BIAS:",
        "    y += tl.load(bn_bias_ptr + channel).to(tl.float32)",
    ]
    parts.reference.append("y = F.batch_norm(y, running_mean, running_var, bn_weight, bn_bias, False, 0.1, eps)")
    parts.math = f"(({parts.math} - running_mean) / sqrt(running_var + eps) * bn_weight + bn_bias)"
    parts.words.append(
        "normalizes every channel with the given mean and variance and applies `bn_weight` and `bn_bias`"
    )
