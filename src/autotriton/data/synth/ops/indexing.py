"""Embeddings, gathers, scatters and selections by index. Integer indices are inputs."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value, Wanted

Arg = LayerArgument


def _embedding(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """The operand is a tensor of indices below its `bound`."""
    x = operands[0]
    if x.domain != "index" or not x.rank or (op.name == "embedding_bag" and x.rank != 2):
        return None
    rows, dim = int(x.bound), builder.rng.choice((8, 16, 24, 32))
    weights = (Wanted("weight", (rows, dim)),)
    shape = (x.shape[0], dim) if op.name == "embedding_bag" else (*x.shape, dim)
    layer: tuple[Arg, ...] = (Arg(rows, "num_embeddings"), Arg(dim, "embedding_dim"))
    mode = builder.rng.choice(("mean", "sum"))
    if op.name == "embedding_bag":
        layer = (*layer, Arg(mode, "mode", "mode"))
    return Plan(shape, {"mode": mode}, weights, layer, dtype=builder.dtype, domain="real", bound=4.0, exact=op.name == "embedding")  # fmt: skip


def _one_hot(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.domain != "index" or x.bound > 64 or builder.dtype != "float32":
        return None
    count = int(x.bound)
    return Plan((*x.shape, count), {"n": count}, dtype="float32", domain="unit", bound=1.0, exact=True)


def _select(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Rows picked by an index vector."""
    x = operands[0]
    if x.rank < 1 or x.shape[0] < 2:
        return None
    axis = builder.rng.choice((0, x.rank - 1)) if op.name == "index_select" else 0
    count = builder.rng.choice((3, 5, 8))
    index = builder.input((count,), domain="index", dtype="int64", role="index", high=x.shape[axis])
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return Plan(shape, {"y": index, "dim": axis})


def _gather(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or x.shape[-1] < 2:
        return None
    count = builder.rng.choice((1, 3, 4))
    shape = (*x.shape[:-1], count)
    index = builder.input(shape, domain="index", dtype="int64", role="index", high=x.shape[-1])
    return Plan(shape, {"y": index})


def _rows(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """One element per row: x[arange, labels]."""
    x = operands[0]
    if x.rank != 2 or x.shape[1] < 2:
        return None
    index = builder.input(x.shape[:1], domain="index", dtype="int64", role="labels", high=x.shape[1])
    return Plan(x.shape[:1], {"y": index})


def _scatter(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Rows of another tensor added at indices. Where writes collide only sums are well defined."""
    x = operands[0]
    if x.rank != 2 or x.shape[0] < 2:
        return None
    if op.name == "scatter_add":
        index = builder.input(x.shape, domain="index", dtype="int64", role="index", high=x.shape[1])
        source = builder.input(x.shape, dtype=x.dtype, role="src")
        return Plan(x.shape, {"y": index, "z": source, "n": x.shape[1]}, bound=4 * x.bound)
    count = builder.rng.choice((4, 6, 9))
    index = builder.input((count,), domain="index", dtype="int64", role="index", high=x.shape[0])
    source = builder.input((count, x.shape[1]), dtype=x.dtype, role="src")
    return Plan(x.shape, {"y": index, "z": source}, bound=4 * x.bound)


def _segment(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Sums per segment, into zeros."""
    x = operands[0]
    if x.rank != 2 or x.shape[0] < 2:
        return None
    groups = builder.rng.choice((2, 3, 5))
    index = builder.input((x.shape[0],), domain="index", dtype="int64", role="segment", high=groups)
    return Plan((groups, x.shape[1]), {"y": index, "n": groups}, bound=4 * x.bound)


def _buckets(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    edges = builder.input((7,), domain="sorted", dtype=x.dtype, role="edges")
    return Plan(x.shape, {"y": edges}, dtype="int64", domain="integer", bound=8.0, exact=True)


def _fill(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or x.shape[0] < 2 or x.shape[1] < 3:
        return None
    index = builder.input((2,), domain="index", dtype="int64", role="index", high=x.shape[1])
    return Plan(x.shape, {"y": index, "c": builder.rng.choice((0.0, 1.0, -1.0))})


def _op(name: str, rule: Any, *spellings: str, **more: Any) -> Op:
    return Op(name, "indexing", rule, spellings, **{"rarity": 2, "exact": True, "noun": "picked", **more})


OPS = (
    _op("embedding", _embedding, "F.embedding({0}, {w})", "{w}[{0}]", layer="nn.Embedding", takes="any", rarity=1, noun="embedded"),
    _op("embedding_bag", _embedding, "F.embedding_bag({0}, {w}, mode='{mode}')", layer="nn.EmbeddingBag", takes="any", noun="embedded", exact=False),
    _op("one_hot", _one_hot, "F.one_hot({0}, num_classes={n}).float()", "F.one_hot({0}, {n}).to(torch.float32)", takes="any", noun="encoded"),
    _op("index_select", _select, "torch.index_select({0}, {dim}, {y})", "{0}.index_select({dim}, {y})"),
    _op("index_rows", _select, "{0}[{y}]", rarity=1),
    _op("gather", _gather, "torch.gather({0}, -1, {y})", "{0}.gather(-1, {y})", "torch.gather({0}, dim=-1, index={y})"),
    _op("take_along_dim", _gather, "torch.take_along_dim({0}, {y}, dim=-1)", rarity=3),
    _op("pick_per_row", _rows, "{0}[torch.arange({0}.shape[0], device={0}.device), {y}]", "{0}.gather(1, {y}.unsqueeze(1)).squeeze(1)"),
    _op("scatter_add", _scatter, "{0}.scatter_add(1, {y}, {z})", "torch.scatter_add({0}, 1, {y}, {z})", "torch.zeros_like({0}).scatter_add(1, {y}, {z}) + {0}", exact=False, noun="scattered"),
    _op("index_add", _scatter, "torch.index_add({0}, 0, {y}, {z})", "{0}.index_add(0, {y}, {z})", "{0}.index_add(0, {y}, {z}, alpha=0.5)", exact=False, noun="scattered"),
    _op("scatter_amax", _scatter, "{0}.index_reduce(0, {y}, {z}, 'amax')", rarity=3, noun="scattered", half=False),
    _op("segment_sum", _segment, "torch.zeros({n}, {0}.shape[1], dtype={0}.dtype, device={0}.device).index_add(0, {y}, {0})", exact=False, noun="sums"),
    _op("index_fill", _fill, "{0}.index_fill(1, {y}, {c})", "torch.index_fill({0}, 1, {y}, {c})", rarity=3),
    _op("bucketize", _buckets, "torch.bucketize({0}, {y})", "torch.searchsorted({y}, {0})", rarity=3, jumps=True, half=False),
)  # fmt: skip
