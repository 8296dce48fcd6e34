"""Blocks of networks: MLPs, gating, attention, residual blocks, recurrent steps."""

from __future__ import annotations

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.recipes.base import COMMON, SCALARS, Recipe
from autotriton.data.synth.values import Value

_SHORT = (
    "relu",
    "gelu",
    "silu",
    "tanh",
    "gelu_tanh",
    "mish",
    "elu",
    "leaky_relu",
    "hardswish",
    "squared_relu",
    "quick_gelu",
)


def mlp(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence"))))
    value = builder.chain(x, ("layer_norm", "rms_norm", "batch_norm1d"), rng.choice((0, 0, 1)))
    for _ in range(rng.choice((1, 1, 1, 2))):
        value = builder.apply(
            "linear",
            value,
            out=rng.choice((16, 24, 32, 48, 64)) if builder.scale != "gpu" else builder.size("features"),
        )
        value = builder.chain(value, _SHORT, 1)
    residual = rng.random() < 0.5
    value = builder.apply("linear", value, out=x.shape[-1] if residual else builder.size("classes"))
    if residual:
        value = builder.apply("add", value, x)
    return builder.chain(value, ("layer_norm", "softmax", "log_softmax", "sigmoid", *SCALARS), rng.choice((0, 0, 1)))


def gated(builder: Builder) -> Value:
    """SwiGLU, GEGLU, GLU, highway: two projections, one gates the other."""
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence"))))
    hidden = rng.choice((16, 24, 32, 40)) if builder.scale != "gpu" else builder.size("features")
    gate = rng.choice(("silu_gate", "silu_gate", "gelu_gate", "sigmoid_gate", "tanh_gate"))
    if rng.random() < 0.5:
        one, two = builder.apply("linear", x, out=hidden), builder.apply("linear", x, out=hidden)
    else:
        one, two = builder.parts("chunk", builder.apply("linear", x, out=2 * hidden), parts=2)
    value = builder.apply(gate, one, two)
    if rng.random() < 0.6:
        value = builder.apply("linear", value, out=x.shape[-1])
        if rng.random() < 0.5:
            value = builder.apply("add", value, x)
    return builder.chain(value, SCALARS, rng.choice((0, 0, 1)))


def gate_of_halves(builder: Builder) -> Value:
    """No projection: the input's halves gate each other."""
    rng = builder.rng
    shape = builder.shape(rng.choice(("matrix", "sequence", "image")))
    axis = 1 if len(shape) == 4 else len(shape) - 1
    shape = tuple(2 * size if place == axis else size for place, size in enumerate(shape))
    x = builder.input(shape)
    if rng.random() < 0.3:
        return builder.chain(builder.apply("glu", x), SCALARS, rng.randint(0, 2))
    one, two = builder.parts("chunk", x, parts=2, dim=axis)
    value = builder.apply(rng.choice(("silu_gate", "gelu_gate", "sigmoid_gate", "tanh_gate", "mul")), one, two)
    return builder.chain(value, (*SCALARS, "layer_norm", "mean"), rng.randint(0, 2))


def squeeze_excite(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape("image"))
    pooled = builder.apply("adaptive_avg_pool2d", x, out=1)
    value = builder.apply(
        "conv2d", pooled, out=max(1, x.shape[1] // 2), kernel=(1, 1), stride=1, dilation=1, groups=1, padding="same"
    )
    value = builder.chain(value, ("relu", "silu", "gelu"), 1)
    value = builder.apply(
        "conv2d", value, out=x.shape[1], kernel=(1, 1), stride=1, dilation=1, groups=1, padding="same"
    )
    gate = builder.apply(rng.choice(("sigmoid", "hardsigmoid")), value)
    return builder.apply("mul", x, gate)


def attention(builder: Builder) -> Value:
    rng = builder.rng
    name = rng.choice(
        (
            "sdpa",
            "sdpa_causal",
            "sdpa_masked",
            "sdpa_biased",
            "attention_by_hand",
            "attention_by_hand",
            "attention_by_hand_causal",
            "linear_attention",
            "relu_attention",
        )
    )
    q = builder.input(builder.shape(rng.choice(("heads", "heads", "sequence"))), role="q")
    if rng.random() < 0.2 and q.rank == 4:
        q = builder.apply("rotary", q)
    value = builder.apply(name, q)
    return builder.chain(value, (*SCALARS, *COMMON), rng.choice((0, 0, 0, 1)))


def self_attention(builder: Builder) -> Value:
    """Projections, heads, attention, output projection."""
    rng = builder.rng
    heads, head = (
        builder.size("heads"),
        builder.rng.choice((4, 8, 8, 16)) if builder.scale != "gpu" else builder.size("head"),
    )
    batch, length = builder.size("batch"), builder.size("length")
    x = builder.input((min(batch, 4) if builder.scale != "gpu" else batch, max(2, length), heads * head))
    inner = x
    if rng.random() < 0.3:
        inner = builder.apply(rng.choice(("layer_norm", "rms_norm")), x)
    bias = rng.random() < 0.5
    if rng.random() < 0.5:
        packed = builder.apply("linear", inner, out=3 * heads * head, bias=bias)
        parts = builder.parts("chunk", packed, parts=3)
    else:
        parts = tuple(builder.apply("linear", inner, out=heads * head, bias=bias) for _ in range(3))
    split = [builder.apply("heads_split", part, heads=heads) for part in parts]
    attended = builder.apply(
        rng.choice(("sdpa", "sdpa_causal", "attention_by_hand", "attention_by_hand_causal")), *split
    )
    value = builder.apply("heads_merge", attended)
    if rng.random() < 0.7:
        value = builder.apply("linear", value, out=heads * head)
    return builder.apply("add", value, x) if rng.random() < 0.4 else value


def residual_conv(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape("image"))
    value = x
    for last in (False, True):
        value = builder.apply(
            "conv2d",
            value,
            out=x.shape[1],
            kernel=(3, 3),
            padding="same",
            dilation=1,
            groups=1,
            bias=rng.random() < 0.5,
        )
        value = builder.chain(value, ("batch_norm2d", "group_norm", "instance_norm2d"), rng.choice((0, 1, 1)))
        if not last:
            value = builder.chain(value, ("relu", "silu", "gelu", "elu", "leaky_relu"), 1)
            if rng.random() < 0.4:
                break
    value = builder.apply("add", value, x)
    return builder.chain(value, ("relu", "silu", "gelu", "mish"), rng.choice((0, 1)))


def dense_block(builder: Builder) -> Value:
    """Convolution whose result is joined to its input along channels."""
    rng = builder.rng
    x = builder.input(builder.shape("image"))
    value = builder.chain(x, ("batch_norm2d", "group_norm", "relu"), 1)
    value = builder.apply("conv2d", value, out=rng.choice((4, 8)), kernel=(3, 3), padding="same", dilation=1, groups=1)
    value = builder.chain(value, COMMON, rng.choice((0, 1)))
    return builder.apply("cat", x, value, dim=1)


def recurrent(builder: Builder) -> Value:
    rng = builder.rng
    name = rng.choice(("rnn_cell", "gru_cell", "lstm_cell", "rnn", "gru", "lstm", "rnn_step", "rnn_step", "gated_step"))
    whole = name in ("rnn", "gru", "lstm")
    shape = builder.shape("sequence" if whole else "matrix")
    if whole and builder.scale != "gpu":
        shape = (shape[0], rng.choice((3, 4, 6)), min(shape[2], 32))
    x = builder.input(shape)
    if rng.random() < 0.3:
        x = builder.apply("linear", x, out=16)
    value = builder.apply(name, x)
    return builder.chain(value, ("linear", *SCALARS, "relu", "layer_norm", "mean"), rng.choice((0, 0, 1)))


def embedded(builder: Builder) -> Value:
    rng = builder.rng
    rows = rng.choice((10, 16, 33, 50)) if builder.scale != "gpu" else rng.choice((1000, 5000, 32000))
    shape = builder.shape("matrix")
    x = builder.input(
        (shape[0], min(shape[1], builder.size("length"))), domain="index", dtype="int64", role="tokens", high=rows
    )
    value = builder.apply(rng.choice(("embedding", "embedding", "embedding", "embedding_bag", "one_hot")), x)
    if rng.random() < 0.2 and value.rank == 3:
        value = builder.chain(value, ("prepend_token",), 1)
    return builder.chain(
        value,
        ("layer_norm", "linear", "mean", "sum", "mul_scalar", "add", "relu", "gelu", "rms_norm", "max"),
        rng.randint(0, 3),
    )


RECIPES = (
    Recipe("mlp", 5, mlp, 0.15),
    Recipe("gated", 3.5, gated, 0.2),
    Recipe("gate_of_halves", 2, gate_of_halves, 0.5),
    Recipe("squeeze_excite", 1.2, squeeze_excite, 0.0),
    Recipe("attention", 3.5, attention, 0.5),
    Recipe("self_attention", 2.5, self_attention, 0.1),
    Recipe("residual_conv", 2, residual_conv, 0.1),
    Recipe("dense_block", 1, dense_block, 0.1),
    Recipe("recurrent", 2, recurrent, 0.0),
    Recipe("embedded", 3, embedded, 0.3),
)
