"""A heavy operator with a chain behind it: what most fused kernels are."""

from __future__ import annotations

from autotriton.data.synth.builder import Builder, DeadEnd
from autotriton.data.synth.recipes.base import COMMON, EPILOGUE, IMAGE_NORMS, REDUCTIONS, ROW_NORMS, SCALARS, Recipe
from autotriton.data.synth.values import Value

_KINDS = {1: "signal", 2: "image", 3: "volume"}


def _convolved(builder: Builder, transposed: bool) -> Value:
    rank = builder.rng.choice((1, 2, 2, 2, 2, 3))
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    for _ in range(12):
        x = builder.input(builder.shape(_KINDS[rank]))
        made = builder.attempt(name, x)
        if made is not None:
            return made[0]
    raise DeadEnd(name)


def conv_chain(builder: Builder) -> Value:
    value = _convolved(builder, transposed=False)
    return _conv_tail(builder, value)


def conv_transpose_chain(builder: Builder) -> Value:
    value = _convolved(builder, transposed=True)
    return _conv_tail(builder, value)


def _conv_tail(builder: Builder, value: Value) -> Value:
    rng = builder.rng
    rank = value.rank - 2
    if rng.random() < 0.35:
        norms = IMAGE_NORMS if rank == 2 else (f"batch_norm{rank}d", f"instance_norm{rank}d", "group_norm")
        value = builder.chain(value, norms, 1)
    value = builder.chain(value, (*COMMON, *SCALARS, "add", "mul", "sub", "sigmoid_gate", "maximum"), rng.randint(0, 3))
    if rng.random() < 0.3:
        pools = (
            f"max_pool{rank}d",
            f"avg_pool{rank}d",
            f"adaptive_avg_pool{rank}d",
            "global_avg_pool",
            "global_max_pool",
            f"adaptive_max_pool{rank}d",
        )
        value = builder.chain(value, pools, 1)
    return builder.chain(value, EPILOGUE, rng.randint(0, 3))


def depthwise(builder: Builder) -> Value:
    """Depthwise, then pointwise: separable convolution with a norm and an activation in between."""
    rng = builder.rng
    rank = rng.choice((1, 2, 2, 2))
    x = builder.input(builder.shape(_KINDS[rank]))
    value = builder.apply(
        f"conv{rank}d", x, groups=x.shape[1], out=x.shape[1], padding=rng.choice((None, "same")), kernel=(3,) * rank
    )
    value = builder.chain(value, ("batch_norm2d", "group_norm", *COMMON), rng.randint(0, 2))
    if rng.random() < 0.6:
        value = builder.apply(f"conv{rank}d", value, kernel=(1,) * rank, stride=1, dilation=1, groups=1)
    return builder.chain(value, EPILOGUE, rng.randint(0, 2))


def matmul_chain(builder: Builder) -> Value:
    rng = builder.rng
    kind = rng.choice(("matrix", "matrix", "matrix", "sequence", "cube", "tall"))
    name = rng.choice(
        (
            "linear",
            "linear",
            "linear",
            "linear",
            "matmul",
            "matmul",
            "mm",
            "bmm",
            "matmul_right_t",
            "matmul_left_t",
            "addmm",
            "baddbmm",
            "einsum",
            "gram",
        )
    )
    for _ in range(12):
        x = builder.input(builder.shape("cube" if name in ("bmm", "baddbmm") else kind))
        made = builder.attempt(name, x)
        if made is not None:
            break
    else:
        raise DeadEnd(name)
    value = made[0]
    if rng.random() < 0.3:
        value = builder.chain(value, ROW_NORMS, 1)
    return builder.chain(value, EPILOGUE, rng.randint(0, 5))


def matmul_plain(builder: Builder) -> Value:
    rng = builder.rng
    name = rng.choice(
        (
            "matmul",
            "mm",
            "bmm",
            "mv",
            "matmul_right_t",
            "matmul_left_t",
            "addmm",
            "addmv",
            "baddbmm",
            "addbmm",
            "addr",
            "einsum",
            "einsum",
            "einsum",
            "outer",
            "dot",
            "inner",
            "vecdot",
            "kron",
            "tensordot",
            "bilinear",
            "gram",
            "linear",
        )
    )
    for _ in range(16):
        kind = {
            "outer": "vector",
            "dot": "vector",
            "inner": "vector",
            "vecdot": "vector",
            "kron": "vector",
            "addr": "vector",
            "bmm": "cube",
            "baddbmm": "cube",
            "addbmm": "cube",
        }.get(name)
        x = builder.input(builder.shape(kind or rng.choice(("matrix", "matrix", "sequence", "image", "heads"))))
        made = builder.attempt(name, x)
        if made is not None:
            return builder.chain(made[0], EPILOGUE, rng.choice((0, 0, 0, 1)))
    raise DeadEnd(name)


def norm_act(builder: Builder) -> Value:
    rng = builder.rng
    kind = rng.choice(("matrix", "sequence", "image", "image", "signal", "volume"))
    x = builder.input(builder.shape(kind))
    pool = {
        "matrix": ROW_NORMS,
        "sequence": ROW_NORMS,
        "image": IMAGE_NORMS,
        "signal": ("batch_norm1d", "instance_norm1d", "group_norm"),
        "volume": ("batch_norm3d", "instance_norm3d", "group_norm"),
    }[kind]
    value = builder.chain(x, (*pool, "local_response_norm", "frobenius", "normalize_one", "min_max_scale", "centre"), 1)
    if value is x:
        raise DeadEnd("norm")
    value = builder.chain(value, (*COMMON, *SCALARS, "add", "mul"), rng.randint(0, 3))
    if rng.random() < 0.3 and value.shape == x.shape:
        value = builder.apply("add", value, x)
    return value


def residual_norm(builder: Builder) -> Value | tuple[Value, ...]:
    """norm(x + residual): the commonest fused kernel of a transformer; sometimes the sum is returned as well."""
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence"))))
    other = builder.input(x.shape, role="residual")
    total = builder.apply("add", x, other)
    value = builder.apply(rng.choice(("layer_norm", "rms_norm", "rms_by_hand", "standardise")), total)
    value = builder.chain(value, (*COMMON, *SCALARS), rng.randint(0, 2))
    return (value, total) if rng.random() < 0.2 else value


def pool_chain(builder: Builder) -> Value:
    rng = builder.rng
    rank = rng.choice((1, 2, 2, 3))
    x = builder.input(builder.shape(_KINDS[rank]))
    value = builder.chain(x, COMMON, rng.choice((0, 0, 1)))
    pools = [f"{kind}{rank}d" for kind in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")]
    pools += [f"lp_pool{rank}d"] if rank < 3 else []
    pools += (
        ["upsample_nearest", "upsample_bilinear", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"]
        if rank == 2
        else ["upsample_linear"]
        if rank == 1
        else []
    )
    made = builder.chain(value, pools, 1)
    if made is value:
        raise DeadEnd("pool")
    return builder.chain(made, (*COMMON, *SCALARS, "mean", "sum"), rng.randint(0, 2))


def softmax_chain(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence", "image"))))
    value = builder.chain(x, (*SCALARS, "masked_fill", "add", "temperature"), rng.randint(0, 2))
    value = builder.apply(rng.choice(("softmax", "softmax", "log_softmax", "softmin", "softmax_by_hand")), value)
    return builder.chain(value, ("mul", "neg", "log", *SCALARS, "sum", "max", "square", "entr"), rng.randint(0, 2))


def reduction_chain(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape("any"))
    value = builder.chain(
        x, (*COMMON, *SCALARS, "square", "abs", "exp", "mul", "squared_difference"), rng.randint(0, 3)
    )
    made = builder.chain(
        value, (*REDUCTIONS, "max_all", "nansum", "nanmean", "norm_inf", "sum_square", "log_mean_exp", "median"), 1
    )
    if made is value:
        raise DeadEnd("reduction")
    return builder.chain(made, (*SCALARS, *COMMON, "sqrt", "log"), rng.randint(0, 2))


RECIPES = (
    Recipe("conv_chain", 11, conv_chain),
    Recipe("conv_transpose_chain", 6, conv_transpose_chain),
    Recipe("depthwise", 2.5, depthwise),
    Recipe("matmul_chain", 12, matmul_chain),
    Recipe("matmul_plain", 4, matmul_plain, 0.5),
    Recipe("norm_act", 6, norm_act),
    Recipe("residual_norm", 2.5, residual_norm),
    Recipe("pool_chain", 4.5, pool_chain),
    Recipe("softmax_chain", 3.5, softmax_chain, 0.4),
    Recipe("reduction_chain", 5.5, reduction_chain, 0.4),
)
