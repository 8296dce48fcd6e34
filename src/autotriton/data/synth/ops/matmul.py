"""Products: linear layers, matrix products of every rank, einsum, distances."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Shape, Value, Wanted

Arg = LayerArgument


def _fits(builder: Builder, *sizes: int) -> bool:
    return math.prod(sizes) <= builder.sizes.work


def _other(builder: Builder, shape: Shape, x: Value, role: str = "weight") -> Value:
    """The second factor: a parameter, or an input with the usual spread."""
    if builder.module and builder.rng.random() < 0.5:
        return builder.weight(Wanted(role, shape, "real", 1.0 / math.sqrt(shape[-2] if len(shape) > 1 else shape[0])))
    return builder.input(shape, dtype=x.dtype, role=builder.rng.choice(("y", "b", "other")))


def _linear(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank:
        return None
    out = builder.fixed.get("out", builder.size("features"))
    if not _fits(builder, x.elements, out):
        return None
    bias = builder.fixed.get("bias", builder.rng.random() < 0.75)
    arguments = [Arg(x.shape[-1], "in_features"), Arg(out, "out_features")]
    weights = [Wanted("weight", (out, x.shape[-1]), "real", 1.0 / math.sqrt(x.shape[-1]))]
    if bias:
        weights.append(Wanted("bias", (out,), "real", 0.1))
    else:
        arguments.append(Arg(False, "bias", "bias"))
    return Plan((*x.shape[:-1], out), {}, tuple(weights), tuple(arguments), bound=4.0)


def _bilinear(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 2:
        return None
    out, other = builder.rng.choice((4, 8, 10)), builder.rng.choice((5, 8, 16))
    if not _fits(builder, x.elements, out, other):
        return None
    y = builder.input((x.shape[0], other), dtype=x.dtype, role="y")
    weights = (Wanted("weight", (out, x.shape[1], other), "real", 0.1), Wanted("bias", (out,), "real", 0.1))
    return Plan((x.shape[0], out), {"y": y}, weights, None, bound=8.0)


def _matmul(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """x @ y for ranks 1 to 4; y is made to fit."""
    x = operands[0]
    if not x.rank:
        return None
    if len(operands) > 1:
        y = operands[1]
        if x.rank < 2 or y.rank < 2 or x.shape[-1] != y.shape[-2] or (x.rank != y.rank) or x.shape[:-2] != y.shape[:-2]:
            return None
        return Plan((*x.shape[:-1], y.shape[-1]), {"y": y}, bound=_grown(x, y))
    n = builder.fixed.get("out", builder.size("features"))
    if (op.name == "mm" and x.rank != 2) or (op.name == "bmm" and x.rank != 3) or (op.name == "mv" and x.rank != 2):
        return None
    if op.name == "mv":
        y = _other(builder, (x.shape[-1],), x, "vector")
        return Plan(x.shape[:1], {"y": y}, bound=_grown(x, y))
    batched = op.name == "bmm" or (x.rank > 2 and builder.rng.random() < 0.6)
    if not _fits(builder, x.elements, n):
        return None
    y = _other(builder, (*(x.shape[:-2] if batched else ()), x.shape[-1], n), x)
    return Plan((*x.shape[:-1], n) if x.rank > 1 else (n,), {"y": y}, bound=_grown(x, y))


def _transposed(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """x @ y.T, x.T @ y: layouts people meet."""
    x = operands[0]
    n = builder.size("features")
    if x.rank != 2 or not _fits(builder, x.elements, n):
        return None
    if op.name == "matmul_left_t":
        y = _other(builder, (x.shape[0], n), x)
        return Plan((x.shape[1], n), {"y": y}, bound=_grown(x, y))
    y = _other(builder, (n, x.shape[1]), x)
    return Plan((x.shape[0], n), {"y": y}, bound=_grown(x, y))


def _added(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """addmm and its kin."""
    x = operands[0]
    n = builder.size("features")
    rank = {"addmm": 2, "addmv": 2, "baddbmm": 3, "addbmm": 3, "addr": 1}[op.name]
    if x.rank != rank or not _fits(builder, x.elements, n):
        return None
    factors = {"beta": builder.rng.choice((1, 0.5, 2.0)), "alpha": builder.rng.choice((1, 0.5, 0.1))}
    if op.name == "addr":
        y = builder.input((n,), dtype=x.dtype, role="vec2")
        z = builder.input((x.shape[0], n), dtype=x.dtype, role="matrix")
        return Plan((x.shape[0], n), {"y": y, "z": z, **factors}, bound=16.0)
    if op.name == "addmv":
        y = builder.input(x.shape[1:], dtype=x.dtype, role="vec")
        z = builder.input(x.shape[:1], dtype=x.dtype, role="bias")
        return Plan(x.shape[:1], {"y": y, "z": z, **factors}, bound=_grown(x, y))
    batch = x.shape[:-2]
    y = builder.input((*batch, x.shape[-1], n), dtype=x.dtype, role="mat2")
    out = (x.shape[-2], n) if op.name == "addbmm" else (*batch, x.shape[-2], n)
    bias = (n,) if op.name == "addmm" and builder.rng.random() < 0.5 else out
    z = builder.input(bias, dtype=x.dtype, role="bias")
    return Plan(out, {"y": y, "z": z, **factors}, bound=_grown(x, y))


def _grown(x: Value, y: Value) -> float:
    return 0.5 * x.bound * y.bound * math.sqrt(x.shape[-1]) / 2


# Patterns people write; letters get sizes from x, new ones from the axis in brackets.
_EINSUM: dict[str, tuple[str, str]] = {
    "bij,bjk->bik": ("cube", "k"),
    "ij,jk->ik": ("matrix", "k"),
    "bld,de->ble": ("sequence", "e"),
    "bhid,bhjd->bhij": ("heads", "j"),
    "bhwc,cd->bhwd": ("image", "d"),
    "bi,bj->bij": ("matrix", "j"),
    "bid,bjd->bij": ("sequence", "j"),
    "bcl,cl->bc": ("signal", ""),
    "bi,bi->b": ("matrix", ""),
    "bijl,lk->bijk": ("image", "k"),
    "ij,kj->ik": ("matrix", "k"),
    "bchw,bcij->bhwij": ("image", "ij"),
    "bnd,nde->bne": ("sequence", "e"),
    "ij,ij->": ("matrix", ""),
}


def _einsum(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    fits = [pattern for pattern in _EINSUM if len(pattern.split(",")[0]) == x.rank]
    if not fits:
        return None
    pattern = builder.rng.choice(fits)
    first, rest = pattern.split(",")
    second, out = rest.split("->")
    letters = dict(zip(first, x.shape, strict=True))
    for letter in second:
        if letter not in letters:
            letters[letter] = builder.rng.choice((4, 5, 8, 16))
    if not _fits(builder, *letters.values()):
        return None
    y = _other(builder, tuple(letters[letter] for letter in second), x)
    summed = math.prod(size for letter, size in letters.items() if letter not in out)
    bound = 0.25 * x.bound * y.bound * math.sqrt(summed)
    return Plan(tuple(letters[letter] for letter in out), {"pattern": pattern, "y": y}, bound=bound)


def _outer(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 1:
        return None
    size = builder.size("features")
    if op.name in ("dot", "inner", "vecdot"):
        y = builder.input(x.shape, dtype=x.dtype, role="y")
        return Plan((), {"y": y}, bound=_grown(x, y))
    y = builder.input((size,), dtype=x.dtype, role="y")
    return Plan((x.shape[0] * size,) if op.name == "kron" else (x.shape[0], size), {"y": y}, bound=16.0)


def _pairs(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Distances and similarities between rows."""
    x = operands[0]
    if x.rank != 2 or x.shape[-1] < 2:
        return None
    other = builder.size("batch") + 1
    shape = (other, x.shape[1]) if op.name in ("cdist", "cosine_matrix", "inner_rows", "squared_distances") else x.shape
    y = builder.input(shape, dtype=x.dtype, role="y")
    crossed = shape != x.shape or op.name in ("cdist", "cosine_matrix", "inner_rows", "squared_distances")
    return Plan((x.shape[0], other) if crossed else x.shape[:1], {"y": y}, bound=2.0 * x.bound * math.sqrt(x.shape[1]))


def _triangle(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or min(x.shape[-2:]) < 2:
        return None
    diagonal = builder.rng.choice((0, 0, 1, -1))
    return Plan(x.shape, {"diagonal": f", diagonal={diagonal}" if diagonal else ""})


def _gram(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank not in (2, 3) or not _fits(builder, x.elements, x.shape[-2]):
        return None
    return Plan((*x.shape[:-2], x.shape[-2], x.shape[-2]), bound=_grown(x, x))


def _op(name: str, rule: Any, *spellings: str, **more: Any) -> Op:
    return Op(name, "matmul", rule, spellings, **more)


OPS = (
    _op("linear", _linear, "F.linear({0}, {w})", layer="nn.Linear", noun="projected"),
    _op("bilinear", _bilinear, "F.bilinear({0}, {y}, {w})", rarity=3, half=False),
    _op("matmul", _matmul, "torch.matmul({0}, {y})", "{0} @ {y}", "{0}.matmul({y})", noun="product", arity=2),
    _op("mm", _matmul, "torch.mm({0}, {y})", "{0}.mm({y})", noun="product", arity=2),
    _op("bmm", _matmul, "torch.bmm({0}, {y})", "{0}.bmm({y})", noun="product", arity=2),
    _op("mv", _matmul, "torch.mv({0}, {y})", "{0} @ {y}", "{0}.mv({y})", rarity=2, noun="product"),
    _op("matmul_right_t", _transposed, "{0} @ {y}.T", "torch.matmul({0}, {y}.t())", "torch.mm({0}, {y}.transpose(0, 1))", noun="product"),
    _op("matmul_left_t", _transposed, "{0}.T @ {y}", "torch.matmul({0}.t(), {y})", rarity=2, noun="product"),
    _op("addmm", _added, "torch.addmm({z}, {0}, {y}, beta={beta}, alpha={alpha})", "torch.addmm({z}, {0}, {y})", rarity=2),
    _op("addmv", _added, "torch.addmv({z}, {0}, {y}, beta={beta}, alpha={alpha})", "torch.addmv({z}, {0}, {y})", rarity=3),
    _op("baddbmm", _added, "torch.baddbmm({z}, {0}, {y}, beta={beta}, alpha={alpha})", "torch.baddbmm({z}, {0}, {y})", rarity=2),
    _op("addbmm", _added, "torch.addbmm({z}, {0}, {y})", rarity=3),
    _op("addr", _added, "torch.addr({z}, {0}, {y}, beta={beta}, alpha={alpha})", rarity=3),
    _op("einsum", _einsum, "torch.einsum('{pattern}', {0}, {y})", "torch.einsum(\"{pattern}\", {0}, {y})", rarity=2, noun="product"),
    _op("outer", _outer, "torch.outer({0}, {y})", "{0}[:, None] * {y}[None, :]", rarity=2),
    _op("dot", _outer, "torch.dot({0}, {y})", "{0} @ {y}", rarity=2),
    _op("inner", _outer, "torch.inner({0}, {y})", rarity=3),
    _op("vecdot", _outer, "torch.linalg.vecdot({0}, {y})", rarity=3),
    _op("kron", _outer, "torch.kron({0}, {y})", rarity=3),
    _op("tensordot", _transposed, "torch.tensordot({0}, {y}, dims=([1], [1]))", rarity=3),
    _op("cdist", _pairs, "torch.cdist({0}, {y})", "torch.cdist({0}, {y}, p=1.0)", gives="nonneg", rarity=3, half=False),
    _op("squared_distances", _pairs, "(({0}[:, None, :] - {y}[None, :, :]) ** 2).sum(-1)", "torch.sum(({0}.unsqueeze(1) - {y}.unsqueeze(0)) ** 2, dim=-1)", gives="nonneg", rarity=2),
    _op("cosine_matrix", _pairs, "F.normalize({0}, dim=-1) @ F.normalize({y}, dim=-1).T", "F.cosine_similarity({0}.unsqueeze(1), {y}.unsqueeze(0), dim=-1)", rarity=2, gives="sym"),
    _op("cosine_similarity", _pairs, "F.cosine_similarity({0}, {y}, dim=1)", "F.cosine_similarity({0}, {y})", "torch.cosine_similarity({0}, {y}, dim=-1)", gives="sym", rarity=2),
    _op("pairwise_distance", _pairs, "F.pairwise_distance({0}, {y})", "torch.norm({0} - {y} + 1e-6, dim=-1)", gives="nonneg", rarity=3),
    _op("inner_rows", _pairs, "torch.inner({0}, {y})", rarity=3),
    _op("gram", _gram, "{0} @ {0}.transpose(-2, -1)", "torch.matmul({0}, {0}.mT)", rarity=2),
    Op("tril", "matmul", _triangle, ("torch.tril({0}{diagonal})",), rarity=2, exact=True),
    Op("triu", "matmul", _triangle, ("torch.triu({0}{diagonal})",), rarity=2, exact=True),
)  # fmt: skip
