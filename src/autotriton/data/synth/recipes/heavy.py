"""Heavy operators of one kind each, with the long tails of fused kernels: for sets whose shares are decided by name.

None of them has a weight: where no recipes are named they are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable

from autotriton.data.synth.builder import Builder, DeadEnd
from autotriton.data.synth.recipes.base import COMMON, EPILOGUE, IMAGE_NORMS, ROW_NORMS, SCALARS, Grow, Recipe
from autotriton.data.synth.values import Value

_KINDS = {1: "signal", 2: "image", 3: "volume"}
_SIMPLE = (*COMMON, *COMMON, *SCALARS, *SCALARS, "add", "add", "mul", "sub", "div", "sigmoid_gate")
_REDUCING = ("mean", "sum", "max", "min", "amax", "amin", "logsumexp", "softmax", "softmax", "log_softmax")


def _convolution(rank: int, transposed: bool) -> Grow:
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    norms = IMAGE_NORMS if rank == 2 else (f"batch_norm{rank}d", f"instance_norm{rank}d", "group_norm")
    pools = (f"max_pool{rank}d", f"max_pool{rank}d", f"avg_pool{rank}d", "global_avg_pool", f"adaptive_avg_pool{rank}d")

    def grow(builder: Builder) -> Value:
        rng = builder.rng
        value = _begun(builder, name, _KINDS[rank])
        parts: list[Callable[[Value], Value]] = [
            lambda v: builder.chain(v, _SIMPLE, rng.randint(1, 3)),
            lambda v: builder.chain(v, norms, 1) if rng.random() < 0.45 else v,
            lambda v: builder.chain(v, pools, rng.choice((1, 1, 1, 2))) if rng.random() < 0.4 else v,
            lambda v: builder.chain(v, _REDUCING, 1) if rng.random() < 0.35 else v,
        ]
        rng.shuffle(parts)
        for part in parts[: rng.choice((1, 2, 3, 4, 4))]:
            value = part(value)
        return builder.chain(value, _SIMPLE, rng.choice((0, 0, 1, 2)))

    return grow


def linear_tail(builder: Builder) -> Value:
    """A linear layer of a batch of rows, and up to six operators behind it, reductions and norms among them."""
    rng = builder.rng
    value = _begun(builder, "linear", "matrix")
    for _ in range(rng.randint(1, 3)):
        pool = rng.choice((_SIMPLE, _SIMPLE, _SIMPLE, EPILOGUE, (*ROW_NORMS, "group_norm", "batch_norm1d"), _REDUCING))
        value = builder.chain(value, pool, rng.choice((1, 1, 2)))
    return value


def deep_mlp(builder: Builder) -> Value:
    """Linear layers with one activation between them, the same each time or not."""
    rng = builder.rng
    value = builder.input(builder.shape("matrix"))
    same = rng.choice(("relu", "relu", "relu", "gelu", "tanh", "silu", "leaky_relu"))
    for _ in range(rng.randint(2, 6)):
        value = builder.apply("linear", value, out=rng.choice((8, 12, 16, 24, 32)))
        value = builder.apply(same if rng.random() < 0.9 else "sigmoid", value)
    return builder.apply("linear", value, out=builder.size("classes"))


def extreme(builder: Builder) -> Value:
    """Where the largest or smallest value along one dimension stands, that value, or the product of them all."""
    names = ("argmax", "argmax", "argmin", "argmin", "max", "min", "prod", "cumprod")
    return _begun(builder, builder.rng.choice(names), builder.rng.choice(("matrix", "cube", "cube", "image")))


def triangular(builder: Builder) -> Value:
    """A product of which one side, or the result, is a triangle."""
    rng = builder.rng
    value = builder.input(builder.shape("matrix"))
    side = rng.choice(("triu", "tril"))
    if rng.random() < 0.6:
        value = builder.apply(side, value)
    value = builder.apply(rng.choice(("matmul", "mm")), value)
    return builder.apply(side, value) if rng.random() < 0.6 else builder.chain(value, EPILOGUE, rng.choice((0, 1)))


def _begun(builder: Builder, name: str, kind: str) -> Value:
    """The operator on inputs drawn until it fits one."""
    for _ in range(16):
        made = builder.attempt(name, builder.input(builder.shape(kind)))
        if made is not None:
            return made[0]
    raise DeadEnd(name)


RECIPES = (
    *(
        Recipe(f"conv{'_transpose' if transposed else ''}{rank}d_tail", 0, _convolution(rank, transposed), 0.05, True)
        for rank in (1, 2, 3)
        for transposed in (False, True)
    ),
    Recipe("linear_tail", 0, linear_tail, 0.05, floats_only=True),
    Recipe("deep_mlp", 0, deep_mlp, 0.0, floats_only=True),
    Recipe("extreme", 0, extreme, 0.1, floats_only=True),
    Recipe("triangular", 0, triangular, 0.1, floats_only=True),
)
