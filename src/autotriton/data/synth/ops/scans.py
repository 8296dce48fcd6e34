"""Prefix sums and their kin, differences, and recurrences written with them."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op, Plan, Value


def _scan(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    axes = [axis for axis in range(x.rank) if x.shape[axis] > 1]
    if not axes:
        return None
    axis = axes[-1] if builder.rng.random() < 0.6 else builder.rng.choice(axes)
    dim = int(builder.fixed.get("dim", axis - x.rank if builder.rng.random() < 0.5 else axis))
    grows = math.sqrt(x.shape[dim]) if "sum" in op.name else 1.0
    return Plan(x.shape, {"dim": dim, "n": x.shape[dim]}, bound=x.bound * grows)


def _difference(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank or x.shape[-1] < 3:
        return None
    order = 1 if op.name != "diff" else builder.rng.choice((1, 1, 2))
    last = x.shape[-1] - order
    shape = x.shape[:-1] if op.name == "trapezoid" else (*x.shape[:-1], last)
    bound = x.bound * (x.shape[-1] if op.name != "diff" else 4)
    return Plan(shape, {"n": order}, bound=bound)


def _op(name: str, *spellings: str, rule: Any = _scan, **more: Any) -> Op:
    return Op(name, "scan", rule, spellings, **{"rarity": 2, "noun": "running", **more})


OPS = (
    _op("cumsum", "torch.cumsum({0}, dim={dim})", "{0}.cumsum(dim={dim})", "{0}.cumsum({dim})", rarity=1),
    _op("cumprod", "torch.cumprod({0}, dim={dim})", "{0}.cumprod(dim={dim})", takes="prob"),
    _op("cummax", "torch.cummax({0}, dim={dim})[0]", "{0}.cummax(dim={dim}).values", exact=True, rarity=3),
    _op("cummin", "torch.cummin({0}, dim={dim})[0]", "{0}.cummin(dim={dim}).values", exact=True, rarity=3),
    _op("logcumsumexp", "torch.logcumsumexp({0}, dim={dim})", "{0}.logcumsumexp(dim={dim})", rarity=3, half=False),
    _op("reverse_cumsum", "torch.flip(torch.cumsum(torch.flip({0}, dims=[{dim}]), dim={dim}), dims=[{dim}])", "{0}.flip({dim}).cumsum({dim}).flip({dim})"),
    _op("exclusive_cumsum", "torch.cumsum({0}, dim={dim}) - {0}"),
    _op("cumulative_mean", "torch.cumsum({0}, dim={dim}) / {n}", "{0}.cumsum({dim}) / {n}"),
    _op("diff", "torch.diff({0}, n={n}, dim=-1)", "torch.diff({0}, n={n})", rule=_difference, rarity=3),
    _op("shift_difference", "{0}[..., 1:] - {0}[..., :-1]", rule=_difference),
    _op("trapezoid", "torch.trapezoid({0}, dim=-1)", "torch.trapezoid({0}, dx=0.1, dim=-1)", rule=_difference, rarity=3),
    _op("cumulative_trapezoid", "torch.cumulative_trapezoid({0}, dim=-1)", rule=_difference, rarity=3),
)  # fmt: skip
