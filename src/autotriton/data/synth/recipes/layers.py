"""One layer or one operator that has much to be told, with a little around it: every setting of a convolution or a
pooling, any dimension of a reduction, products of any rank. For sets whose shares are decided by name.

None of them has a weight: where no recipes are named they are not drawn.
"""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder, DeadEnd
from autotriton.data.synth.recipes.base import COMMON, SCALARS, Grow, Recipe
from autotriton.data.synth.values import Value

_KINDS = {1: "signal", 2: "image", 3: "volume"}
_AROUND = (*COMMON, *COMMON, *SCALARS, "add", "mul", "tanh", "sigmoid", "gelu", "square", "abs", "neg", "exp", "log1p")
_ALONG = (
    "sum",
    "mean",
    "max",
    "min",
    "amax",
    "amin",
    "prod",
    "var",
    "std",
    "logsumexp",
    "norm",
    "norm_one",
    "mean_square",
)
_SAME_SHAPE = ("softmax", "log_softmax", "softmin", "normalize", "normalize_one", "softmax_by_hand")
_SCANS = (
    "cumsum",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "reverse_cumsum",
    "exclusive_cumsum",
)
_PLACES = ("argmax", "argmin", "max_indices")
_FUNCTIONS = (
    "tanh",
    "expm1",
    "log1p",
    "erf",
    "exp",
    "atan",
    "sinh",
    "sigmoid",
    "softplus",
    "elu",
    "gelu",
    "mish",
    "selu",
    "softsign",
    "hardtanh",
    "tanhshrink",
    "logsigmoid",
    "silu",
)


def _convolution(rank: int, transposed: bool) -> Grow:
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"

    def grow(builder: Builder) -> Value:
        rng = builder.rng
        told: dict[str, Any] = {"bias": rng.random() < 0.4}
        if rank > 1 and rng.random() < 0.25:
            told["stride"] = tuple(rng.choice((1, 2, 3)) for _ in range(rank))
        if rank > 1 and rng.random() < 0.25:
            told["dilation"] = tuple(rng.choice((1, 2, 3)) for _ in range(rank))
        if rank > 1 and rng.random() < 0.25:
            told["padding"] = tuple(rng.choice((0, 1, 2)) for _ in range(rank))
        if rng.random() < 0.15:
            told["out"] = builder.size("channels")
        value = _applied(builder, (name,), (_KINDS[rank],), **told)
        return builder.chain(value, _AROUND, rng.choice((1, 1, 1, 2)))

    return grow


def depthwise(builder: Builder) -> Value:
    """One filter per channel, and perhaps the 1x1 convolution behind it that mixes them."""
    rng = builder.rng
    rank = rng.choice((1, 2, 2, 2, 3))
    value = builder.input(builder.shape(_KINDS[rank]))
    channels = value.shape[1]
    if channels < 2:
        raise DeadEnd("one channel")
    told: dict[str, Any] = {"groups": channels, "out": channels * rng.choice((1, 1, 2)), "bias": rng.random() < 0.4}
    value = builder.apply(f"conv{rank}d", value, **told)
    value = builder.chain(value, _AROUND, rng.choice((0, 1)))
    if rng.random() < 0.5:
        told = {"kernel": (1,) * rank, "padding": (0,) * rank, "stride": 1, "dilation": 1, "groups": 1}
        value = builder.apply(f"conv{rank}d", value, bias=rng.random() < 0.4, **told)
    return builder.chain(value, _AROUND, 1)


def along(builder: Builder) -> Value:
    """A reduction along any one dimension of three or four."""
    return _along(builder, _ALONG)


def extreme_along(builder: Builder) -> Value:
    """Where the extreme stands along any one dimension."""
    return _along(builder, _PLACES, before=("neg", "abs", "relu", "clamp"))


def shares_along(builder: Builder) -> Value:
    """A softmax or a unit length along any one dimension."""
    return _along(builder, _SAME_SHAPE)


def scan_along(builder: Builder) -> Value:
    return _along(builder, _SCANS)


def _along(builder: Builder, names: tuple[str, ...], before: tuple[str, ...] = _AROUND) -> Value:
    rng = builder.rng
    first = rng.random() < 0.5
    value = builder.input(builder.shape(rng.choice(("cube", "cube", "sequence", "image", "matrix"))))
    if first:
        value = builder.chain(value, before, 1)
    dim = rng.randrange(value.rank)
    value = builder.apply(rng.choice(names), value, dim=dim - value.rank if rng.random() < 0.35 else dim)
    return builder.chain(value, _AROUND, rng.choice((0, 1)) if first else 1)


def product(builder: Builder) -> Value:
    """Products of three- and four-dimensional tensors, of transposed ones, and of a matrix and a vector."""
    rng = builder.rng
    name, kinds = rng.choice(
        (
            ("bmm", ("cube", "sequence")),
            ("bmm", ("cube", "sequence")),
            ("matmul", ("cube", "sequence", "image", "heads")),
            ("matmul", ("cube", "sequence", "image", "heads")),
            ("matmul", ("matrix",)),
            ("matmul_right_t", ("matrix",)),
            ("matmul_left_t", ("matrix",)),
            ("einsum", ("cube", "sequence", "image", "heads")),
            ("einsum", ("image", "heads", "sequence")),
            ("mv", ("matrix",)),
            ("baddbmm", ("cube",)),
            ("gram", ("matrix", "cube")),
        )
    )
    value = _applied(builder, (name,), kinds)
    return builder.chain(value, (*_AROUND, "softmax", "sum", "mean"), rng.choice((1, 1, 2)))


def product_of_inputs(builder: Builder) -> Value:
    """As `product`, of two inputs each of which may come transposed."""
    rng = builder.rng
    rows, inner, columns = (builder.size("features") for _ in range(3))
    batch = rng.choice(((), (), (builder.size("batch"),)))
    if rows * inner * columns * (batch[0] if batch else 1) > builder.sizes.work:
        raise DeadEnd("too much work")
    left, right = (*batch, rows, inner), (*batch, inner, columns)
    turned = rng.choice(((False, True), (True, False), (True, True), (False, False)))
    x = builder.input(left if not turned[0] else (*batch, inner, rows), role=rng.choice(("A", "a", "x")))
    y = builder.input(right if not turned[1] else (*batch, columns, inner), role=rng.choice(("B", "b", "y")))
    if turned[0]:
        x = builder.apply("turn", x)
    if turned[1]:
        y = builder.apply("turn", y)
    return builder.chain(builder.apply("matmul", x, y), _AROUND, rng.choice((1, 1, 2)))


def pooled(builder: Builder) -> Value:
    rng = builder.rng
    rank = rng.choice((1, 2, 3))
    value = _applied(builder, (rng.choice(("max_pool", "max_pool", "avg_pool")) + f"{rank}d",), (_KINDS[rank],))
    return builder.chain(value, _AROUND, 1)


def normalised(builder: Builder) -> Value:
    rng = builder.rng
    rank = rng.choice((1, 2, 2, 3))
    names = (f"batch_norm{rank}d", f"instance_norm{rank}d", "group_norm", "layer_norm", "rms_norm", "rms_channels")
    value = _applied(builder, (rng.choice(names),), (_KINDS[rank],))
    return builder.chain(value, _AROUND, 1)


def functions(builder: Builder) -> Value:
    """Functions a language for kernels keeps in its library."""
    rng = builder.rng
    value = builder.input(builder.shape(rng.choice(("matrix", "matrix", "cube", "image"))))
    made = builder.chain(value, _FUNCTIONS, rng.choice((1, 2, 2, 3)))
    if made is value:
        raise DeadEnd("functions")
    return builder.chain(made, SCALARS, rng.choice((0, 1)))


def _applied(builder: Builder, names: tuple[str, ...], kinds: tuple[str, ...], **told: Any) -> Value:
    """One of the operators on inputs drawn until it fits one."""
    for _ in range(16):
        value = builder.input(builder.shape(builder.rng.choice(kinds)))
        made = builder.attempt(builder.rng.choice(names), value, **told)
        if made is not None:
            return made[0]
    raise DeadEnd(names[0])


RECIPES = (
    *(
        Recipe(f"conv{'_transpose' if transposed else ''}{rank}d_layer", 0, _convolution(rank, transposed), 0.05, True)
        for rank in (1, 2, 3)
        for transposed in (False, True)
    ),
    Recipe("depthwise_layer", 0, depthwise, 0.05, floats_only=True),
    Recipe("along", 0, along, 0.05, floats_only=True),
    Recipe("extreme_along", 0, extreme_along, 0.05, floats_only=True),
    Recipe("shares_along", 0, shares_along, 0.05, floats_only=True),
    Recipe("scan_along", 0, scan_along, 0.05, floats_only=True),
    Recipe("product", 0, product, 0.1, floats_only=True),
    Recipe("product_of_inputs", 0, product_of_inputs, 0.2, floats_only=True),
    Recipe("pooled", 0, pooled, 0.05, floats_only=True),
    Recipe("normalised", 0, normalised, 0.05, floats_only=True),
    Recipe("functions", 0, functions, 0.1, floats_only=True),
)
