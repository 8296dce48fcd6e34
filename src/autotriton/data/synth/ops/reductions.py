"""Reductions over one axis, several, or all."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op, Plan, Shape, Value


def axes_of(builder: Builder, x: Value, *, single: bool) -> tuple[list[int], str]:
    """The axes to reduce and how they are written; all of them is written as nothing."""
    rng = builder.rng
    fixed = builder.fixed.get("dim")
    if fixed is not None:
        dims = [fixed] if isinstance(fixed, int) else list(fixed)
        return [dim % x.rank for dim in dims], str(fixed)
    wide = [axis for axis in range(x.rank) if x.shape[axis] > 1] or list(range(x.rank))
    if single or x.rank == 1 or rng.random() < 0.75:
        axis = wide[-1] if rng.random() < 0.5 else rng.choice(wide)
        return [axis], str(axis - x.rank if rng.random() < 0.5 else axis)
    count = rng.randint(2, min(x.rank, 3))
    axes = sorted(rng.sample(range(x.rank), count))
    if x.rank >= 4 and rng.random() < 0.6:
        axes = list(range(2, x.rank))
    return axes, repr(tuple(axes))


def reduced(shape: Shape, axes: list[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _reduce(*, single: bool = False, dtype: str | None = None, keep: bool = True, least: int = 1, bound: Any = None) -> Any:  # fmt: skip
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        if not x.rank:
            return None
        axes, dim = axes_of(builder, x, single=single)
        count = math.prod(x.shape[axis] for axis in axes)
        if count < least:
            return None
        kept = bool(builder.fixed.get("keepdim", keep and builder.rng.random() < 0.4))
        arguments = {"dim": dim, "keep": ", keepdim=True" if kept else "", "n": count}
        size = bound(x.bound, count) if bound else x.bound
        domain = None if dtype is None else "index"
        return Plan(reduced(x.shape, axes, kept), arguments, dtype=dtype, domain=domain, bound=size)

    return rule


def _whole(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Over everything."""
    x = operands[0]
    count = max(x.elements, 1)
    return Plan((), {"n": count}, bound=x.bound * (math.sqrt(count) if "sum" in op.name else 1.0))


def _top(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank or x.shape[-1] < 4:
        return None
    k = builder.rng.choice([k for k in (1, 2, 3, 4, 8) if k <= x.shape[-1]])
    shape = (*x.shape[:-1], k) if op.name == "topk" else x.shape[:-1] if op.name == "kthvalue" else x.shape
    return Plan(shape, {"k": k, "descending": builder.rng.choice((True, False))})


def _root(b: float, n: int) -> float:
    return b * math.sqrt(n)


def _axis(name: str, rule: Any, *, F: bool = False, **more: Any) -> Op:
    spellings = (f"torch.{name}({{0}}, dim={{dim}}{{keep}})", f"{{0}}.{name}(dim={{dim}}{{keep}})", f"torch.{name}({{0}}, {{dim}}{{keep}})", f"{{0}}.{name}({{dim}}{{keep}})")  # fmt: skip
    return Op(name, "reduction", rule, spellings, **more)


OPS = (
    _axis("sum", _reduce(bound=_root)),
    _axis("mean", _reduce()),
    _axis("amax", _reduce(), exact=True, rarity=2),
    _axis("amin", _reduce(), exact=True, rarity=2),
    Op("max", "reduction", _reduce(single=True), ("torch.max({0}, dim={dim}{keep})[0]", "{0}.max(dim={dim}{keep})[0]", "torch.max({0}, dim={dim}{keep}).values", "{0}.max(dim={dim}{keep}).values"), exact=True),
    Op("min", "reduction", _reduce(single=True), ("torch.min({0}, dim={dim}{keep})[0]", "{0}.min(dim={dim}{keep})[0]", "torch.min({0}, dim={dim}{keep}).values"), exact=True),
    Op("prod", "reduction", _reduce(single=True, bound=lambda b, n: 16.0), ("torch.prod({0}, dim={dim}{keep})", "{0}.prod(dim={dim}{keep})"), takes="prob", rarity=2),
    _axis("var", _reduce(least=2, bound=lambda b, n: b * b), gives="nonneg", rarity=2),
    Op("var_biased", "reduction", _reduce(least=2, bound=lambda b, n: b * b), ("torch.var({0}, dim={dim}, unbiased=False{keep})", "{0}.var(dim={dim}, correction=0{keep})"), gives="nonneg", rarity=2),
    _axis("std", _reduce(least=2), gives="nonneg", rarity=2),
    _axis("logsumexp", _reduce(), rarity=2),
    Op("norm", "reduction", _reduce(bound=_root), ("torch.norm({0}, dim={dim}{keep})", "torch.norm({0}, p=2, dim={dim}{keep})", "{0}.norm(dim={dim}{keep})", "torch.linalg.vector_norm({0}, dim={dim}{keep})"), gives="nonneg"),
    Op("norm_one", "reduction", _reduce(bound=lambda b, n: b * n), ("torch.norm({0}, p=1, dim={dim}{keep})", "torch.linalg.vector_norm({0}, ord=1, dim={dim}{keep})", "{0}.abs().sum(dim={dim}{keep})"), gives="nonneg", rarity=2),
    Op("norm_inf", "reduction", _reduce(), ("torch.linalg.vector_norm({0}, ord=float('inf'), dim={dim}{keep})", "{0}.abs().amax(dim={dim}{keep})"), gives="nonneg", rarity=3),
    Op("nansum", "reduction", _reduce(bound=_root), ("torch.nansum({0}, dim={dim}{keep})", "{0}.nansum(dim={dim}{keep})"), rarity=3),
    Op("nanmean", "reduction", _reduce(), ("torch.nanmean({0}, dim={dim}{keep})", "{0}.nanmean(dim={dim}{keep})"), rarity=3),
    Op("argmax", "reduction", _reduce(single=True, dtype="int64", least=2), ("torch.argmax({0}, dim={dim}{keep})", "{0}.argmax(dim={dim}{keep})"), jumps=True, exact=True),
    Op("argmin", "reduction", _reduce(single=True, dtype="int64", least=2), ("torch.argmin({0}, dim={dim}{keep})", "{0}.argmin(dim={dim}{keep})"), jumps=True, exact=True),
    Op("max_indices", "reduction", _reduce(single=True, dtype="int64", least=2), ("torch.max({0}, dim={dim}{keep})[1]", "torch.max({0}, {dim}{keep}).indices"), jumps=True, exact=True, rarity=2),
    Op("median", "reduction", _reduce(single=True, least=3), ("torch.median({0}, dim={dim}{keep}).values", "{0}.median(dim={dim}{keep})[0]"), rarity=3, exact=True),
    Op("sum_all", "reduction", _whole, ("torch.sum({0})", "{0}.sum()")),
    Op("mean_all", "reduction", _whole, ("torch.mean({0})", "{0}.mean()")),
    Op("max_all", "reduction", _whole, ("torch.max({0})", "{0}.max()", "torch.amax({0})"), rarity=2),
    Op("mean_square", "reduction", _reduce(bound=lambda b, n: b * b), ("({0} * {0}).mean(dim={dim}{keep})", "{0}.pow(2).mean(dim={dim}{keep})", "torch.mean({0} ** 2, dim={dim}{keep})"), gives="nonneg"),
    Op("sum_square", "reduction", _reduce(bound=lambda b, n: b * b * n), ("({0} ** 2).sum(dim={dim}{keep})", "torch.sum({0} * {0}, dim={dim}{keep})"), gives="nonneg", rarity=2, limit=30.0),
    Op("log_mean_exp", "reduction", _reduce(), ("torch.logsumexp({0}, dim={dim}{keep}) - math.log({n})",), rarity=3),
    Op("topk", "sorting", _top, ("torch.topk({0}, {k}, dim=-1)[0]", "{0}.topk({k}, dim=-1).values", "torch.topk({0}, k={k}).values"), rarity=2, exact=True),
    Op("sort", "sorting", _top, ("torch.sort({0}, dim=-1, descending={descending})[0]", "{0}.sort(dim=-1, descending={descending}).values", "torch.sort({0}, dim=-1).values"), rarity=2, exact=True),
    Op("kthvalue", "sorting", _top, ("torch.kthvalue({0}, {k}, dim=-1).values", "{0}.kthvalue({k}, dim=-1)[0]"), rarity=3, exact=True),
    Op("argsort", "sorting", lambda b, op, xs: Plan(xs[0].shape, dtype="int64", domain="index", exact=True) if xs[0].rank and xs[0].shape[-1] > 3 else None, ("torch.argsort({0}, dim=-1)", "{0}.argsort(dim=-1, descending=True)"), jumps=True, rarity=3, half=False),
)  # fmt: skip
