"""Small networks: stacks of layers whose kernels repeat, joined branches, blocks with shortcuts, recurrent stacks.

None of them has a weight: where no recipes are named they are not drawn.
"""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.recipes.base import Recipe
from autotriton.data.synth.recipes.heavy import deep_mlp
from autotriton.data.synth.values import Value

_ACTIVATIONS = ("relu", "relu", "relu", "relu", "gelu", "silu", "leaky_relu", "elu", "hardswish", "mish")
_CHANNELS = (4, 6, 8, 8, 12)


def conv_net(builder: Builder) -> Value:
    """Convolutions with pools between them, then linear layers."""
    rng = builder.rng
    value = builder.input(builder.shape("image"))
    activation, normed, size = rng.choice(_ACTIVATIONS), rng.random() < 0.4, rng.choice((3, 3, 3, 5))
    for _ in range(rng.randint(2, 4)):
        value = _convolved(builder, value, rng.choice(_CHANNELS), size, bias=not normed or rng.random() < 0.3)
        value = builder.apply("batch_norm2d", value) if normed else value
        value = builder.apply(activation, value)
        value = builder.chain(value, ("max_pool2d", "max_pool2d", "avg_pool2d"), rng.choice((0, 1)))
    if rng.random() < 0.4:
        value = builder.apply("adaptive_avg_pool2d", value, out=rng.choice((1, 1, 2)))
    value = builder.apply("flatten", value)
    for _ in range(rng.choice((0, 1, 1, 2))):
        value = builder.apply(activation, builder.apply("linear", value, out=rng.choice((8, 16, 24, 32))))
    return builder.apply("linear", value, out=builder.size("classes"))


def branches(builder: Builder) -> Value:
    """Convolutions of several sizes over one input, joined along channels."""
    rng = builder.rng
    value = builder.input(builder.shape("image"))
    activation = rng.choice(_ACTIVATIONS) if rng.random() < 0.8 else None
    if rng.random() < 0.5:
        value = _activated(builder, _convolved(builder, value, rng.choice(_CHANNELS), 1), activation)
    joined: Value | None = None
    for size in rng.sample((1, 3, 3, 5), rng.choice((2, 2, 3))):
        branch = value
        if size > 1 and rng.random() < 0.3:
            branch = _activated(builder, _convolved(builder, value, rng.choice(_CHANNELS), 1), activation)
        branch = _activated(builder, _convolved(builder, branch, rng.choice(_CHANNELS), size), activation)
        joined = branch if joined is None else builder.apply("cat", joined, branch, dim=1)
    assert joined is not None
    return joined


def shortcut_block(builder: Builder) -> Value:
    """Two normed convolutions, and the input added behind them, through a convolution of its own where sizes differ."""
    rng = builder.rng
    x = builder.input(builder.shape("image"))
    activation, out = rng.choice(_ACTIVATIONS), rng.choice((x.shape[1], *_CHANNELS))
    value = builder.apply("batch_norm2d", _convolved(builder, x, out, 3, bias=False))
    value = builder.apply(activation, value)
    value = builder.apply("batch_norm2d", _convolved(builder, value, out, 3, bias=False))
    if out != x.shape[1] or rng.random() < 0.3:
        x = builder.apply("batch_norm2d", _convolved(builder, x, out, 1, bias=False))
    return builder.apply(activation, builder.apply("add", value, x))


def separable(builder: Builder) -> Value:
    """A depthwise and a pointwise convolution, each normed, perhaps widened before and with a shortcut."""
    rng = builder.rng
    x = builder.input(builder.shape("image"))
    activation, value = rng.choice(_ACTIVATIONS), x
    if rng.random() < 0.5:
        widened = _convolved(builder, value, x.shape[1] * rng.choice((2, 3)), 1, bias=False)
        value = builder.apply(activation, builder.apply("batch_norm2d", widened))
    channels, bias = value.shape[1], rng.random() < 0.2
    value = _convolved(builder, value, channels, rng.choice((3, 3, 5)), groups=channels, bias=bias)
    value = builder.apply(activation, builder.apply("batch_norm2d", value))
    residual = rng.random() < 0.4
    out = x.shape[1] if residual else rng.choice(_CHANNELS)
    value = builder.apply("batch_norm2d", _convolved(builder, value, out, 1, bias=bias))
    return builder.apply("add", value, x) if residual else _activated(builder, value, activation)


def transition(builder: Builder) -> Value:
    """A norm, an activation, a pointwise convolution and a pool."""
    rng = builder.rng
    value = builder.apply("batch_norm2d", builder.input(builder.shape("image")))
    value = builder.apply(rng.choice(_ACTIVATIONS), value)
    value = _convolved(builder, value, rng.choice(_CHANNELS), 1, bias=rng.random() < 0.3)
    return builder.chain(value, ("avg_pool2d", "avg_pool2d", "max_pool2d"), 1)


def recurrent_stack(builder: Builder) -> Value:
    """Recurrent layers over a short sequence: their output, its last step, or one of the states they end with."""
    rng = builder.rng
    name = rng.choice(("gru_stack", "gru_stack", "lstm_stack", "lstm_stack", "rnn_stack"))
    batch, steps, features = builder.size("batch"), rng.choice((2, 3, 4, 5)), rng.choice((7, 8, 12, 16))
    layers, both, batch_first, hidden = rng.choice((1, 2, 2, 3, 3, 4, 6)), rng.random() < 0.4, rng.random() < 0.6, 8
    x = builder.input((batch, steps, features) if batch_first else (steps, batch, features))
    state = (layers * (2 if both else 1), batch, hidden)
    roles = ("h0", "c0") if name == "lstm_stack" else ("h0",)
    states = [builder.input(state, domain="sym", role=role) for role in roles] if rng.random() < 0.75 else []
    gives = rng.choice(("output", "output", "hidden", "cell" if name == "lstm_stack" else "hidden"))
    how: dict[str, Any] = {"layers": layers, "both": both, "batch_first": batch_first, "hidden": hidden, "gives": gives}
    value = builder.apply(name, x, *states, **how)
    if gives == "output" and rng.random() < 0.5:
        value = builder.apply("last_step", value, batch_first=batch_first)
        value = builder.chain(value, ("linear",), rng.choice((0, 1, 1)))
    return value


def _convolved(builder: Builder, value: Value, out: int, size: int, *, bias: bool = True, groups: int = 1) -> Value:
    kernel = (size, size)
    return builder.apply("conv2d", value, out=out, kernel=kernel, padding="same", dilation=1, groups=groups, bias=bias)


def _activated(builder: Builder, value: Value, activation: str | None) -> Value:
    return value if activation is None else builder.apply(activation, value)


RECIPES = (
    Recipe("mlp_stack", 0, deep_mlp, 0.0, floats_only=True, sequential_share=0.75),
    Recipe("conv_net", 0, conv_net, 0.0, floats_only=True, sequential_share=0.5),
    Recipe("branches", 0, branches, 0.0, floats_only=True, sequential_share=0.3),
    Recipe("shortcut_block", 0, shortcut_block, 0.0, floats_only=True, sequential_share=0.4),
    Recipe("separable", 0, separable, 0.0, floats_only=True, sequential_share=0.4),
    Recipe("transition", 0, transition, 0.0, floats_only=True, sequential_share=0.6),
    Recipe("recurrent_stack", 0, recurrent_stack, 0.0, floats_only=True),
)
