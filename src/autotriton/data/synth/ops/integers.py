"""Integers and booleans: bit operations, integer division, logic and counting."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.ops.binary import broadcast
from autotriton.data.synth.values import Op, Plan, Value


def _two_integers(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    shape = x.shape if builder.rng.random() < 0.7 else x.shape[-1:]
    # Divisors and shifts must stay positive and small.
    small = op.name in ("floor_divide_int", "remainder_int", "shift_left", "shift_right", "div_trunc_int", "fmod_int")
    y = operands[1] if len(operands) > 1 else builder.input(shape, domain="shift" if small else "integer", dtype=x.dtype, role="y")  # fmt: skip
    shape_out = broadcast(x.shape, y.shape)
    if shape_out is None or (small and y.domain != "shift"):
        return None
    limit = 120.0 if x.dtype in ("int8", "uint8") else 3000.0 if x.dtype == "int16" else 1e6
    bound = x.bound * 16 if op.name in ("shift_left", "mul_int") else x.bound + y.bound
    if bound > limit:
        return None
    return Plan(shape_out, {"y": y}, domain="integer", bound=bound, exact=True)


def _integer(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    return Plan(operands[0].shape, {"c": builder.rng.choice((1, 2, 3, 5, 7))}, domain="integer", exact=True)


def _two_bools(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype="bool", role="other_mask")
    return Plan(x.shape, {"y": y}, dtype="bool", exact=True) if y.shape == x.shape else None


def _one_bool(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    return Plan(operands[0].shape, dtype="bool", exact=True)


def _compared(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, domain=x.domain, role="y")
    if y.shape != x.shape or y.dtype != x.dtype or not y.exact:
        return None
    return Plan(x.shape, {"y": y}, dtype="bool", domain="bool", exact=True)


def _to_number(dtype: str) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        domain = "real" if dtype.startswith("float") else "integer"
        return Plan(operands[0].shape, dtype=dtype, domain=domain, exact=True)

    return rule


def _counted(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank:
        return None
    dim = builder.rng.choice((-1, 0, x.rank - 1))
    axis = dim % x.rank
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    dtype = "bool" if op.name in ("any", "all") else "int64"
    return Plan(shape, {"dim": dim}, dtype=dtype, domain="bool" if dtype == "bool" else "integer", bound=float(x.shape[axis]), exact=True)  # fmt: skip


def _int(name: str, sign: str | None, function: str, **more: Any) -> Op:
    spellings = (f"{{0}} {sign} {{y}}", f"{{0}} {sign} {{y}}") if sign else ()
    return Op(name, "integer", _two_integers, (*spellings, f"torch.{function}({{0}}, {{y}})"), takes="integer", rarity=2, arity=2, **more)  # fmt: skip


OPS = (
    _int("add_int", "+", "add"),
    _int("sub_int", "-", "sub"),
    _int("mul_int", "*", "mul"),
    _int("max_int", None, "maximum"),
    _int("min_int", None, "minimum"),
    _int("bitwise_and", "&", "bitwise_and"),
    _int("bitwise_or", "|", "bitwise_or"),
    _int("bitwise_xor", "^", "bitwise_xor"),
    _int("floor_divide_int", "//", "floor_divide"),
    _int("remainder_int", "%", "remainder"),
    _int("fmod_int", None, "fmod"),
    _int("shift_left", "<<", "bitwise_left_shift"),
    _int("shift_right", ">>", "bitwise_right_shift"),
    Op("div_trunc_int", "integer", _two_integers, ("torch.div({0}, {y}, rounding_mode='trunc')", "torch.div({0}, {y}, rounding_mode='floor')"), takes="integer", rarity=3, arity=2),
    Op("bitwise_not", "integer", _integer, ("~{0}", "torch.bitwise_not({0})"), takes="integer", rarity=2),
    Op("abs_int", "integer", _integer, ("torch.abs({0})", "{0}.abs()"), takes="integer", rarity=2),
    Op("neg_int", "integer", _integer, ("-{0}", "torch.neg({0})"), takes="integer", rarity=2),
    Op("square_int", "integer", lambda b, op, xs: None if xs[0].bound > 11 else Plan(xs[0].shape, domain="integer", bound=xs[0].bound**2, exact=True), ("{0} * {0}", "{0} ** 2", "torch.square({0})"), takes="integer", rarity=2),
    Op("mod_const", "integer", _integer, ("{0} % {c}", "torch.remainder({0}, {c})"), takes="integer", rarity=2),
    Op("clamp_int", "integer", _integer, ("{0}.clamp(-{c}, {c} + 4)", "torch.clamp({0}, min=-{c})"), takes="integer", rarity=2),
    Op("gcd", "integer", _two_integers, ("torch.gcd({0}, {y})",), takes="integer", rarity=3, arity=2),
    Op("int_to_float", "integer", _to_number("float32"), ("{0}.float()", "{0}.to(torch.float32)"), takes="integer"),
    Op("int_to_long", "integer", _to_number("int64"), ("{0}.long()", "{0}.to(torch.int64)"), takes="integer", rarity=2),
    *(Op(name, "logic", _compared, (f"{{0}} {sign} {{y}}", f"torch.{name}({{0}}, {{y}})", f"{{0}}.{name}({{y}})"), takes="any", jumps=True, rarity=2, arity=2)
      for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))),
    Op("logical_and", "logic", _two_bools, ("torch.logical_and({0}, {y})", "{0} & {y}"), takes="bool", rarity=2, arity=2),
    Op("logical_or", "logic", _two_bools, ("torch.logical_or({0}, {y})", "{0} | {y}"), takes="bool", rarity=2, arity=2),
    Op("logical_xor", "logic", _two_bools, ("torch.logical_xor({0}, {y})", "{0} ^ {y}"), takes="bool", rarity=2, arity=2),
    Op("logical_not", "logic", _one_bool, ("torch.logical_not({0})", "~{0}"), takes="bool", rarity=2),
    Op("bool_to_float", "logic", _to_number("float32"), ("{0}.float()", "{0}.to(torch.float32)"), takes="bool", rarity=2),
    Op("bool_to_int", "logic", _to_number("int32"), ("{0}.int()", "{0}.to(torch.int32)"), takes="bool", rarity=2),
    Op("any", "reduction", _counted, ("torch.any({0}, dim={dim})", "{0}.any(dim={dim})"), takes="bool", rarity=2),
    Op("all", "reduction", _counted, ("torch.all({0}, dim={dim})", "{0}.all(dim={dim})"), takes="bool", rarity=2),
    Op("count", "reduction", _counted, ("{0}.sum(dim={dim})", "torch.count_nonzero({0}, dim={dim})", "torch.sum({0}, dim={dim})"), takes="bool", rarity=2),
    Op("sum_int", "reduction", _counted, ("{0}.long().sum(dim={dim})", "torch.sum({0}, dim={dim}, dtype=torch.int64)"), takes="integer", rarity=2),
)  # fmt: skip
