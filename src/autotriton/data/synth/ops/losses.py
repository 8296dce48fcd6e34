"""Losses: the first operand is the prediction; targets, labels and weights are made to fit."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value

Arg = LayerArgument


def _reduction(builder: Builder, op: Op, shape: tuple[int, ...], y: Value, more: dict[str, Any] | None = None) -> Plan:
    """The mean mostly; a sum or no reduction sometimes."""
    how = builder.rng.choice(("mean", "mean", "mean", "sum", "none"))
    words = f", reduction='{how}'" if how != "mean" else ""
    return Plan(shape if how == "none" else (), {"y": y, "kw": words, **(more or {})}, bound=50.0)


def _regression(domain: str = "real", beta: bool = False) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        if not x.rank:
            return None
        y = operands[1] if len(operands) > 1 else builder.input(x.shape, domain=domain, dtype=x.dtype, role="target")
        if y.shape != x.shape or (domain != "real" and not y.within(domain)):
            return None
        return _reduction(builder, op, x.shape, y, {"beta": builder.rng.choice((0.5, 1.0, 2.0))} if beta else None)

    return rule


def _difference(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Written out, so without a reduction to choose."""
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, role="target")
    return Plan((), {"y": y}, bound=50.0) if x.rank and y.shape == x.shape else None


def _classes(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Logits (N, C) or (N, C, d1, ...), labels (N, d1, ...)."""
    x = operands[0]
    if (
        x.rank < 2
        or x.shape[1] < 2
        or (x.rank > 2 and op.name not in ("cross_entropy", "nll_loss", "cross_entropy_smooth"))
    ):
        return None
    y = builder.input((x.shape[0], *x.shape[2:]), domain="index", dtype="int64", role="labels", high=x.shape[1])
    return _reduction(builder, op, (x.shape[0], *x.shape[2:]), y, {"smooth": builder.rng.choice((0.05, 0.1, 0.2))})


def _weighted(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 2 or x.shape[1] < 2:
        return None
    y = builder.input((x.shape[0],), domain="index", dtype="int64", role="labels", high=x.shape[1])
    weight = builder.input((x.shape[1],), domain="pos", dtype=x.dtype, role="class_weights")
    return Plan((), {"y": y, "z": weight}, bound=20.0)


def _signs(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Targets of -1 and 1."""
    x = operands[0]
    if not x.rank or (op.name == "cosine_embedding_loss" and x.rank != 2):
        return None
    rows = (x.shape[0],) if op.name == "cosine_embedding_loss" else x.shape
    signs = builder.input(rows, domain="signs", dtype=x.dtype, role="target")
    if op.name in ("hinge_embedding_loss", "soft_margin_loss", "hinge_loss"):
        return _reduction(builder, op, x.shape, signs)
    other = builder.input(x.shape, dtype=x.dtype, role="other")
    plan = _reduction(builder, op, rows, signs)
    return Plan(plan.shape, {**plan.arguments, "z": other}, bound=20.0)


def _hinge(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    signs = builder.input(x.shape, domain="signs", dtype=x.dtype, role="target")
    return Plan((), {"y": signs}, bound=20.0) if x.rank else None


def _triplet(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 2:
        return None
    positive = builder.input(x.shape, dtype=x.dtype, role="positive")
    negative = builder.input(x.shape, dtype=x.dtype, role="negative")
    margin = builder.rng.choice((1.0, 0.5, 5.0))
    return Plan((), {"y": positive, "z": negative, "margin": margin}, bound=20.0)


def _distribution(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """The target is a distribution over the last axis."""
    x = operands[0]
    if x.rank != 2 or x.shape[-1] < 2:
        return None
    y = builder.input(x.shape, domain="distribution", dtype=x.dtype, role="target")
    how = builder.rng.choice(("batchmean", "sum", "mean"))
    return Plan((), {"y": y, "how": how}, bound=20.0)


def _gaussian(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank:
        return None
    y = builder.input(x.shape, dtype=x.dtype, role="target")
    z = builder.input(x.shape, domain="pos", dtype=x.dtype, role="var")
    return Plan((), {"y": y, "z": z}, bound=50.0)


def _multilabel(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 2:
        return None
    y = builder.input(x.shape, domain="binary", dtype=x.dtype, role="target")
    return Plan((), {"y": y}, bound=20.0)


def _dice(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 2:
        return None
    y = builder.input(x.shape, domain="binary", dtype=x.dtype, role="target")
    return Plan(x.shape[:1], {"y": y}, bound=2.0)


def _loss(name: str, rule: Any, *spellings: str, **more: Any) -> Op:
    texts = spellings or (f"F.{name}({{0}}, {{y}}{{kw}})",)
    return Op(name, "loss", rule, texts, **{"rarity": 2, "noun": "loss", "half": False, **more})


OPS = (
    _loss("mse_loss", _regression(), "F.mse_loss({0}, {y}{kw})", rarity=1),
    _loss("mse_by_hand", _difference, "torch.mean(({0} - {y}) ** 2)", "(({0} - {y}) ** 2).mean()", rarity=1),
    _loss("l1_loss", _regression(), rarity=1),
    _loss("smooth_l1_loss", _regression(beta=True), "F.smooth_l1_loss({0}, {y}, beta={beta}{kw})", "F.smooth_l1_loss({0}, {y}{kw})"),
    _loss("huber_loss", _regression(beta=True), "F.huber_loss({0}, {y}, delta={beta}{kw})"),
    _loss("cross_entropy", _classes, rarity=1),
    _loss("cross_entropy_smooth", _classes, "F.cross_entropy({0}, {y}, label_smoothing={smooth}{kw})"),
    _loss("cross_entropy_weighted", _weighted, "F.cross_entropy({0}, {y}, weight={z})"),
    _loss("cross_entropy_soft", _distribution, "F.cross_entropy({0}, {y})", "-({y} * F.log_softmax({0}, dim=-1)).sum(dim=-1).mean()"),
    _loss("nll_loss", _classes, "F.nll_loss(F.log_softmax({0}, dim=1), {y}{kw})"),
    _loss("multi_margin_loss", _classes, rarity=3),
    _loss("binary_cross_entropy", _regression("unit"), takes="prob"),
    _loss("binary_cross_entropy_with_logits", _regression("unit"), "F.binary_cross_entropy_with_logits({0}, {y}{kw})", rarity=1),
    _loss("kl_div", _distribution, "F.kl_div(F.log_softmax({0}, dim=-1), {y}, reduction='{how}')"),
    _loss("poisson_nll_loss", _regression("nonneg"), limit=4.0, rarity=3),
    _loss("gaussian_nll_loss", _gaussian, "F.gaussian_nll_loss({0}, {y}, {z})", rarity=3),
    _loss("hinge_embedding_loss", _signs, rarity=3),
    _loss("hinge_loss", _hinge, "torch.mean(torch.clamp(1.0 - {0} * {y}, min=0.0))", "F.relu(1 - {0} * {y}).mean()"),
    _loss("soft_margin_loss", _signs, rarity=3),
    _loss("margin_ranking_loss", _signs, "F.margin_ranking_loss({0}, {z}, {y}, margin=0.5{kw})", rarity=3),
    _loss("cosine_embedding_loss", _signs, "F.cosine_embedding_loss({0}, {z}, {y}{kw})", rarity=3),
    _loss("triplet_margin_loss", _triplet, "F.triplet_margin_loss({0}, {y}, {z}, margin={margin})"),
    _loss("triplet_by_hand", _triplet, "F.relu((({0} - {y}) ** 2).sum(-1) - (({0} - {z}) ** 2).sum(-1) + {margin}).mean()"),
    _loss("multilabel_soft_margin_loss", _multilabel, "F.multilabel_soft_margin_loss({0}, {y})", rarity=3),
    _loss("dice_loss", _dice, "1.0 - (2.0 * ({0} * {y}).sum(-1) + 1.0) / ({0}.sum(-1) + {y}.sum(-1) + 1.0)", takes="prob"),
    _loss("focal_loss", _multilabel, "((1.0 - {0}) ** 2 * F.binary_cross_entropy({0}, {y}, reduction='none')).mean()", takes="prob", rarity=3),
    _loss("log_cosh_loss", _regression(), "torch.log(torch.cosh({0} - {y})).mean()", limit=4.0, rarity=3),
)  # fmt: skip
