"""Element-wise chains, single operators, losses, scans, indexing, moves, integers, and a little random soup."""

from __future__ import annotations

from autotriton.data.synth.builder import Builder, DeadEnd
from autotriton.data.synth.recipes.base import COMMON, MOVES, POINTWISE, SCALARS, Recipe
from autotriton.data.synth.values import Value

_KINDS = ("matrix", "matrix", "sequence", "image", "vector", "signal", "volume", "heads", "cube")
# Pure views alone are no kernel, and helpers of recipes need their fixed arguments.
_NOT_ALONE = (
    "unsqueeze",
    "squeeze",
    "chunk",
    "contiguous",
    "heads_split",
    "heads_merge",
    "transpose",
    "swapaxes",
    "permute",
    "split_last",
    "flatten",
    "expand",
    "to_float",
    "slice_step",
    "windows",
)


def pointwise_chain(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape("any"), domain=rng.choice(("real", "real", "real", "pos", "unit", "sym")))
    value = builder.chain(x, POINTWISE, rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8)))
    if value is x:
        raise DeadEnd("chain")
    return value


def single(builder: Builder) -> Value:
    """One operator out of the whole table: every entry has its turn."""
    rng = builder.rng
    names = [op.name for op in builder.table.values() if op.name not in _NOT_ALONE and not op.named]
    for _ in range(24):
        op = builder.table[rng.choice(names)]
        value = builder.attempt(op.name, _operand(builder, op.name, op.takes))
        if value is not None:
            return value[0]
    raise DeadEnd("single")


def rare(builder: Builder) -> Value:
    """A rare operator between common ones."""
    rng = builder.rng
    names = [op.name for op in builder.table.values() if op.rarity == 3 and op.name not in _NOT_ALONE and not op.named]
    for _ in range(24):
        op = builder.table[rng.choice(names)]
        x = _operand(builder, op.name, op.takes)
        before = builder.chain(x, (*COMMON, *SCALARS), rng.choice((0, 1))) if x.floating and not op.jumps else x
        made = builder.attempt(op.name, before)
        if made is not None:
            return builder.chain(made[0], (*COMMON, *SCALARS), rng.choice((0, 1, 2)))
    raise DeadEnd("rare")


def _operand(builder: Builder, name: str, takes: str) -> Value:
    rng = builder.rng
    shape = builder.shape(rng.choice(_KINDS))
    if takes == "bool":
        return builder.input(shape, dtype="bool", role="mask")
    if takes == "integer":
        return builder.input(shape, domain="integer", dtype=rng.choice(("int64", "int32", "int32", "int16", "int8")))
    if name in ("embedding", "embedding_bag", "one_hot"):
        return builder.input(
            builder.shape("matrix"), domain="index", dtype="int64", role="tokens", high=rng.choice((7, 16, 30))
        )
    if takes == "any" and rng.random() < 0.1:
        return builder.input(shape, domain="integer", dtype="int32")
    domain = takes if takes not in ("any", "real") and rng.random() < 0.8 else "real"
    return builder.input(shape, domain=domain)


def loss(builder: Builder) -> Value:
    rng = builder.rng
    names = [op.name for op in builder.table.values() if op.family == "loss"]
    for _ in range(12):
        x = builder.input(
            builder.shape(rng.choice(("matrix", "matrix", "sequence", "image", "vector"))), role="predictions"
        )
        value = builder.chain(x, ("mul_scalar", "linear", "log_softmax", "tanh", "clamp"), rng.choice((0, 0, 0, 1)))
        made = builder.attempt(rng.choice(names), value)
        if made is not None:
            return builder.chain(made[0], ("mul_scalar", "sqrt", "mean_all", "sum_all"), rng.choice((0, 0, 1)))
    raise DeadEnd("loss")


def distance(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape("matrix"))
    names = ("cdist", "squared_distances", "cosine_matrix", "cosine_similarity", "pairwise_distance", "inner_rows")
    value = builder.apply(rng.choice(names), builder.chain(x, ("normalize", "linear", "relu"), rng.choice((0, 0, 1))))
    return builder.chain(value, (*SCALARS, "exp", "neg", "softmax", "mean", "max", "min", "sum"), rng.randint(0, 3))


def scan(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence", "tall", "signal"))))
    value = builder.chain(x, (*COMMON, *SCALARS, "masked_fill", "mask_multiply", "exp"), rng.choice((0, 0, 1, 2)))
    names = (
        "cumsum",
        "cumsum",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "logcumsumexp",
        "reverse_cumsum",
        "exclusive_cumsum",
        "cumulative_mean",
        "diff",
        "shift_difference",
        "trapezoid",
        "cumulative_trapezoid",
    )
    made = builder.chain(value, names, 1)
    if made is value:
        raise DeadEnd("scan")
    return builder.chain(made, (*SCALARS, *COMMON, "mul", "max", "mean", "softmax"), rng.randint(0, 2))


def indexed(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "matrix", "sequence", "tall"))))
    names = (
        "index_select",
        "index_rows",
        "gather",
        "take_along_dim",
        "pick_per_row",
        "scatter_add",
        "index_add",
        "scatter_amax",
        "segment_sum",
        "index_fill",
        "bucketize",
    )
    value = builder.chain(x, ("log_softmax", "mul_scalar", "relu", "softmax"), rng.choice((0, 0, 1)))
    made = builder.chain(value, names, 1)
    if made is value:
        raise DeadEnd("index")
    return builder.chain(made, (*COMMON, *SCALARS, "mean", "sum", "add", "neg"), rng.randint(0, 3))


def moved(builder: Builder) -> Value:
    """Moves with arithmetic between them."""
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "sequence", "image", "signal", "cube"))))
    value = x
    for _ in range(rng.randint(1, 3)):
        value = builder.chain(value, MOVES, 1)
        value = builder.chain(value, (*COMMON, *SCALARS, "add", "mul"), rng.choice((0, 1, 1)))
    if all(step.op.family == "view" for step in builder.steps):
        value = builder.chain(value, (*COMMON, *SCALARS), 1)
    return value


def sorted_values(builder: Builder) -> Value:
    rng = builder.rng
    x = builder.input(builder.shape(rng.choice(("matrix", "matrix", "sequence"))))
    value = builder.chain(x, (*COMMON, *SCALARS, "abs"), rng.choice((0, 0, 1)))
    names = (
        ("topk", "topk", "sort", "kthvalue", "median")
        if not value.exact
        else ("topk", "topk", "sort", "sort", "kthvalue", "median", "argsort", "argmax", "argmin", "max_indices")
    )
    made = builder.chain(value, names, 1)
    if made is value:
        raise DeadEnd("sort")
    return builder.chain(made, (*SCALARS, "softmax", "sum", "mean"), rng.choice((0, 0, 1, 2)))


def integers(builder: Builder) -> Value:
    rng = builder.rng
    dtype = rng.choice(("int64", "int32", "int32", "int16", "int8", "uint8"))
    x = builder.input(builder.shape("any"), domain="integer", dtype=dtype)
    names = [
        op.name
        for op in builder.table.values()
        if op.family == "integer"
        and not (dtype == "uint8" and op.name in ("neg_int", "sub_int", "clamp_int", "bitwise_not"))
    ]
    value = builder.chain(x, names, rng.randint(1, 4))
    if value is x:
        raise DeadEnd("integers")
    return builder.chain(value, (*SCALARS, "relu", "sum", "mean", "sum_int"), rng.choice((0, 0, 1, 2)))


def logic(builder: Builder) -> Value:
    rng = builder.rng
    if rng.random() < 0.5:
        x = builder.input(builder.shape("any"))
        mask = builder.apply(rng.choice(("gt", "lt", "ge", "le", "eq", "ne")), x)
    else:
        mask = builder.input(builder.shape("any"), dtype="bool", role="mask")
    value = builder.chain(mask, ("logical_and", "logical_or", "logical_xor", "logical_not"), rng.choice((0, 1, 1, 2)))
    value = builder.chain(value, ("bool_to_float", "bool_to_int", "count", "any", "all"), rng.choice((0, 1, 1)))
    if value is mask:
        raise DeadEnd("logic")
    return builder.chain(value, (*SCALARS, "mean", "sum", "mul"), rng.choice((0, 0, 1)))


def selected(builder: Builder) -> Value:
    """Comparisons that choose, and steps: only on exact values."""
    rng = builder.rng
    x = builder.input(builder.shape("any"))
    names = [op.name for op in builder.table.values() if op.jumps and op.family == "pointwise"]
    value = builder.chain(x, names, 1)
    if value is x:
        raise DeadEnd("jumps")
    return builder.chain(value, (*COMMON, *SCALARS, "mean", "sum"), rng.randint(0, 3))


def several(builder: Builder) -> tuple[Value, ...]:
    """Two results of one input."""
    rng = builder.rng
    x = builder.input(builder.shape("any"))
    value = builder.chain(x, (*COMMON, *SCALARS), rng.choice((0, 1)))
    one = builder.chain(value, ("mean", "sum", "amax", "softmax", "norm", "relu", "logsumexp"), 1)
    two = builder.chain(value, ("var", "amin", "square", "exp", "std", "cumsum", "tanh", "max"), 1)
    if one is value or two is value:
        raise DeadEnd("several")
    return one, two


def soup(builder: Builder) -> Value:
    """Random operators; everything that was made is used."""
    rng = builder.rng
    value = builder.input(builder.shape("any"))
    helpers = ("heads_split", "heads_merge", "chunk")
    names = [op.name for op in builder.table.values() if op.name not in helpers and not op.named]
    for _ in range(rng.randint(2, 6)):
        value = builder.chain(value, rng.sample(names, 16), 1)
    if not builder.steps:
        raise DeadEnd("soup")
    return value


RECIPES = (
    Recipe("pointwise_chain", 7, pointwise_chain, 0.5),
    Recipe("single", 9, single, 0.5, floats_only=True),
    Recipe("rare", 5, rare, 0.5, floats_only=True),
    Recipe("loss", 5, loss, 0.5, floats_only=True),
    Recipe("distance", 1.5, distance, 0.5, floats_only=True),
    Recipe("scan", 3.5, scan, 0.4),
    Recipe("indexed", 4, indexed, 0.5),
    Recipe("moved", 3.5, moved, 0.5),
    Recipe("sorted_values", 1.5, sorted_values, 0.5, floats_only=True),
    Recipe("integers", 2.5, integers, 0.6, floats_only=True),
    Recipe("logic", 1.5, logic, 0.6, floats_only=True),
    Recipe("selected", 1.5, selected, 0.5, floats_only=True),
    Recipe("several", 1.5, several, 0.4),
    Recipe("soup", 4, soup, 0.3),
)
