"""Element-wise operators of two or three tensors, broadcasting included, and comparisons."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op, Plan, Shape, Value, Wanted


def broadcast(one: Shape, two: Shape) -> Shape | None:
    rank = max(len(one), len(two))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(two)) + two, strict=True)
    result = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            return None
        result.append(b if a == 1 else a)
    return tuple(result)


def partner(builder: Builder, x: Value, domain: str = "real") -> Value:
    """Something to combine x with: a bias or scale of the module, another input of the same shape or a smaller one."""
    rng = builder.rng
    if rng.random() < 0.45:
        return builder.weight(Wanted(rng.choice(("bias", "scale", "shift")), bias_shape(builder, x), domain, 0.5))
    shape = x.shape
    if x.rank and rng.random() < 0.35:
        kept = rng.randrange(x.rank)
        shape = tuple(size if axis >= kept else 1 for axis, size in enumerate(x.shape))
        shape = shape[kept:] if rng.random() < 0.5 else shape
    return builder.input(shape, domain=domain, dtype=x.dtype, role=rng.choice(("y", "other", "residual")))


def bias_shape(builder: Builder, x: Value) -> Shape:
    """(C, 1, 1) for images and volumes, the last axis for everything else."""
    if x.rank >= 4 or (x.rank == 3 and builder.rng.random() < 0.3):
        return (x.shape[1], *([1] * (x.rank - 2)))
    return x.shape[-1:]


def _two(domain: str = "real", *, bound: Any = None) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x, y = operands if len(operands) == 2 else (operands[0], partner(builder, operands[0], domain))
        shape = broadcast(x.shape, y.shape)
        if shape is None or x.dtype != y.dtype or not (domain == "real" or y.within(domain)):
            return None
        limit = bound(x.bound, y.bound) if bound else x.bound + y.bound
        return Plan(shape, {"y": y}, bound=limit)

    return rule


def _three(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, role="y")
    domain = "pos" if op.name == "addcdiv" else "unit" if op.name == "lerp_tensor" else "real"
    z = operands[2] if len(operands) > 2 else builder.input(x.shape, domain=domain, dtype=x.dtype, role="z")
    value = builder.rng.choice((0.5, 1.0, 2.0, -1.0))
    return Plan(x.shape, {"y": y, "z": z, "value": value}, bound=x.bound + 2 * y.bound * max(z.bound, 10.0))


def _lerp(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, role="y")
    return Plan(x.shape, {"y": y, "weight": builder.rng.choice((0.1, 0.25, 0.5, 0.9))})


def _mask(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """A boolean input chooses."""
    x = operands[0]
    if not x.rank:
        return None
    mask = builder.input(x.shape, dtype="bool", role="mask")
    fill = builder.rng.choice((0.0, -1.0, 1e-3, 2.0))
    other = builder.input(x.shape, dtype=x.dtype, role="other") if op.name == "where_mask" else mask
    return Plan(x.shape, {"y": mask, "z": other, "value": fill}, bound=max(x.bound, 4.0))


def _compare(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """A comparison used as people use it: a mask that selects. Only exact values meet it."""
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, role="y")
    if not y.exact or broadcast(x.shape, y.shape) != x.shape:
        return None
    return Plan(x.shape, {"y": y, "c": builder.rng.choice((0.0, 0.5, -0.5, 1.0))}, bound=max(x.bound, y.bound))


def _pair(name: str, sign: str | None = None, *, domain: str = "real", bound: Any = None, method: bool = True, **more: Any) -> Op:  # fmt: skip
    spellings = [f"torch.{name}({{0}}, {{y}})"]
    if sign:
        spellings = [f"{{0}} {sign} {{y}}"] * 3 + spellings
    if method:
        spellings.append(f"{{0}}.{name}({{y}})")
    return Op(name, "pointwise", _two(domain, bound=bound), tuple(spellings), arity=2, **more)


def _times(a: float, b: float) -> float:
    return a * b


_COMPARISONS = tuple(
    Op(f"where_{name}", "pointwise", _compare, (f"torch.where({{0}} {sign} {{y}}, {{0}}, {{y}} * 0.5)", f"torch.where({{0}} {sign} {{c}}, {{0}}, {{y}})",
       f"({{0}} {sign} {{y}}).to({{0}}.dtype) * {{0}}"), jumps=True, rarity=2, arity=2)
    for name, sign in (("gt", ">"), ("lt", "<"), ("ge", ">="), ("le", "<="))
)  # fmt: skip
OPS = (
    _pair("add", "+"),
    _pair("sub", "-"),
    _pair("mul", "*", bound=_times),
    _pair("div", "/", domain="pos", bound=lambda a, b: a * 10.0),
    _pair("maximum", gives=None, bound=max),
    _pair("minimum", bound=max),
    _pair("fmax", bound=max, rarity=3),
    _pair("fmin", bound=max, rarity=3),
    _pair("atan2", domain="pos", bound=lambda a, b: 3.2, rarity=3),
    _pair("hypot", bound=lambda a, b: a + b, rarity=3, gives="nonneg"),
    _pair("logaddexp", rarity=3),
    _pair("logaddexp2", rarity=3),
    _pair("copysign", rarity=3, jumps=True, bound=max),
    _pair("xlogy", domain="pos", bound=lambda a, b: 5 * a, rarity=3),
    _pair("pow", "**", domain="unit", takes="pos", limit=20.0, bound=lambda a, b: a + 1, rarity=3),
    _pair("remainder", "%", domain="pos", jumps=True, rarity=3, bound=max),
    _pair("fmod", domain="pos", jumps=True, rarity=3, bound=max),
    _pair("floor_divide", "//", domain="pos", jumps=True, rarity=3, bound=lambda a, b: a * 10),
    Op("addcmul", "pointwise", _three, ("torch.addcmul({0}, {y}, {z}, value={value})", "{0}.addcmul({y}, {z}, value={value})"), rarity=2, arity=3),
    Op("addcdiv", "pointwise", _three, ("torch.addcdiv({0}, {y}, {z}, value={value})", "{0}.addcdiv({y}, {z})"), rarity=2, arity=3),
    Op("lerp_tensor", "pointwise", _three, ("torch.lerp({0}, {y}, {z})", "{z} * {0} + (1.0 - {z}) * {y}", "{0} + {z} * ({y} - {0})"), rarity=2, arity=3),
    Op("lerp", "pointwise", _lerp, ("torch.lerp({0}, {y}, {weight})", "{0}.lerp({y}, {weight})", "{weight} * {0} + (1 - {weight}) * {y}"), rarity=2, arity=2),
    Op("squared_difference", "pointwise", _two(bound=lambda a, b: (a + b) ** 2), ("({0} - {y}) ** 2", "torch.square({0} - {y})", "({0} - {y}).pow(2)"), gives="nonneg", arity=2),
    Op("sigmoid_gate", "pointwise", _two(bound=max), ("{0} * torch.sigmoid({y})", "torch.sigmoid({y}) * {0}", "{0} * {y}.sigmoid()"), arity=2, noun="gated"),
    Op("silu_gate", "pointwise", _two(bound=_times), ("F.silu({y}) * {0}", "{0} * F.silu({y})"), arity=2, noun="gated"),
    Op("gelu_gate", "pointwise", _two(bound=_times), ("F.gelu({y}) * {0}", "{0} * F.gelu({y})"), arity=2, noun="gated", rarity=2),
    Op("tanh_gate", "pointwise", _two(bound=max), ("torch.tanh({0}) * torch.sigmoid({y})",), arity=2, noun="gated", rarity=2, gives="sym"),
    Op("masked_fill", "pointwise", _mask, ("{0}.masked_fill({y}, {value})", "torch.masked_fill({0}, {y}, {value})"), rarity=2),
    Op("where_mask", "pointwise", _mask, ("torch.where({y}, {0}, {z})", "{0}.where({y}, {z})"), rarity=2),
    Op("mask_multiply", "pointwise", _mask, ("{0} * {y}", "{0} * {y}.to({0}.dtype)", "{0} * (~{y})"), rarity=2),
    *_COMPARISONS,
)  # fmt: skip
