"""Element-wise operators as Triton expressions, computed in fp32 (fp64 for fp64), integers and bools as they are.

What must stay true: NaN goes through `relu`, `clamp`, `maximum` and `minimum` as in torch, and every entry means
exactly what the aten operator means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.piece import node_at

_TL = {
    torch.float16: "tl.float32",
    torch.bfloat16: "tl.float32",
    torch.float32: "tl.float32",
    torch.float64: "tl.float64",
    torch.int64: "tl.int64",
    torch.int32: "tl.int32",
    torch.int16: "tl.int16",
    torch.int8: "tl.int8",
    torch.uint8: "tl.uint8",
    torch.bool: "tl.int1",
}
"""In what a value of a torch type is computed."""


class Inexpressible(Exception):
    """No expression for this operator; the message names it."""


def compute_type(dtype: torch.dtype) -> str:
    if dtype not in _TL:
        raise Inexpressible(f"type {dtype}")
    return _TL[dtype]


def name_of(node: torch.fx.Node) -> str:
    """`aten.add.Tensor` is `add`."""
    text = str(node.target)
    return text.removeprefix("aten.").split(".")[0] if text.startswith("aten.") else text


def literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return 'float("nan")' if math.isnan(value) else f'float("{"-" if value < 0 else ""}inf")'
    return repr(value)


def is_pointwise(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and str(node.target).startswith("aten.") and name_of(node) in TABLE


def render(node: torch.fx.Node, operands: dict[torch.fx.Node, str]) -> str:
    """The node's value, from the names its operands have in the kernel. Operands are cast as torch promotes them."""
    name = name_of(node)
    dtype = node.meta["val"].dtype
    wanted = _operand_type(node, name, dtype)
    args = [_argument(arg, operands, wanted) for arg in node.args]
    kwargs = {key: _argument(arg, operands, wanted) for key, arg in node.kwargs.items() if key not in _LAYOUT}
    if name == "_to_copy":
        source = node_at(node.args[0])
        return _cast(operands[source], source.meta["val"].dtype, dtype)
    if name == "where":
        args[0] = operands[node_at(node.args[0])]
    return _maker(name, wanted)(*args, **kwargs)


def _maker(name: str, kind: torch.dtype) -> Callable[..., str]:
    if kind is torch.bool and name == "add":
        return _binary("|")
    return TABLE[name] if kind.is_floating_point else _OF_INTEGERS.get(name, TABLE[name])


_LAYOUT = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")
_COMPARISONS = frozenset(
    [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "isnan",
        "isinf",
        "isfinite",
    ]
)


def _operand_type(node: torch.fx.Node, name: str, dtype: torch.dtype) -> torch.dtype:
    """What operands are cast to before the operator."""
    if name in _COMPARISONS:
        found = [arg for arg in node.args if isinstance(arg, torch.fx.Node)]
        numbers = [arg for arg in node.args if isinstance(arg, int | float)]
        result: torch.dtype = found[0].meta["val"].dtype
        for other in found[1:]:
            result = torch.promote_types(result, other.meta["val"].dtype)
        if any(isinstance(n, float) for n in numbers) and not result.is_floating_point:
            return torch.float32
        return result
    return dtype


class _Number(str):
    """A number written out; `typed` is for functions that take tensors of one type only."""

    typed: str


def _argument(arg: Any, operands: dict[torch.fx.Node, str], wanted: torch.dtype) -> str:
    if isinstance(arg, torch.fx.Node):
        text = operands[arg]
        value = arg.meta.get("val")
        return _cast(text, value.dtype, wanted) if isinstance(value, torch.Tensor) else text
    if isinstance(arg, int | float):
        number = _Number(literal(arg))
        number.typed = f"tl.full((), {number}, {compute_type(wanted)})"
        return number
    if isinstance(arg, torch.dtype | torch.device | torch.memory_format | torch.layout):
        return repr(arg)
    return literal(arg)


def _cast(text: str, given: torch.dtype, wanted: torch.dtype) -> str:
    if compute_type(given) == compute_type(wanted):
        return text
    if wanted is torch.bool:
        return f"({text} != 0)"
    if wanted in (torch.float16, torch.bfloat16, torch.float32) and given is torch.float64:
        return f"{text}.to(tl.float32)"
    return f"{text}.to({compute_type(wanted)})"


def _typed(text: str) -> str:
    return text.typed if isinstance(text, _Number) else text


def _scaled(x: str, alpha: str | None) -> str:
    return x if alpha in (None, "1", "1.0") else f"{alpha} * {x}"


def _add(x: str, y: str, alpha: str | None = None) -> str:
    return f"{x} + {_scaled(y, alpha)}"


def _sub(x: str, y: str, alpha: str | None = None) -> str:
    return f"{x} - {_scaled(y, alpha)}"


def _rsub(x: str, y: str, alpha: str | None = None) -> str:
    return f"{y} - {_scaled(x, alpha)}"


def _div(x: str, y: str, rounding_mode: str = "None") -> str:
    if rounding_mode == "'floor'":
        return _floor_divide(x, y)
    return f"libdevice.trunc({x} / {y})" if rounding_mode == "'trunc'" else f"{x} / {y}"


def _pow(x: str, y: str) -> str:
    # A `_Number` is a string that finds the same entry.
    whole = {"2": f"{x} * {x}", "3": f"{x} * {x} * {x}", "1": x, "0.5": f"tl.sqrt({x})", "-1": f"1.0 / {x}"}
    whole |= {"2.0": whole["2"], "3.0": whole["3"], "1.0": x, "-0.5": f"1.0 / tl.sqrt({x})", "-1.0": whole["-1"]}
    whole |= {"-2": f"1.0 / ({x} * {x})", "4": f"({x} * {x}) * ({x} * {x})"}
    return whole.get(y, _call_two("libdevice.pow")(x, y))


def _clamp(x: str, low: str = "None", high: str = "None") -> str:
    bounds = [bound for bound in (low, high) if bound != "None"]
    if not all(_is_number(bound) for bound in bounds) or (len(bounds) == 2 and float(low) > float(high)):
        # Bounds may be NaN, or cross: then the upper one counts.
        text = x if low == "None" else f"tl.maximum({x}, {low}, propagate_nan=tl.PropagateNan.ALL)"
        return text if high == "None" else f"tl.minimum({text}, {high}, propagate_nan=tl.PropagateNan.ALL)"
    # Comparisons with NaN are false, so that NaN is kept.
    text = x if low == "None" else f"tl.where({x} < {low}, {low}, {x})"
    return text if high == "None" else f"tl.where({x} > {high}, {high}, {text})"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _gelu(x: str, approximate: str = "'none'") -> str:
    if approximate == "'tanh'":
        return f"0.5 * {x} * (1.0 + libdevice.tanh(0.7978845608028654 * ({x} + 0.044715 * {x} * {x} * {x})))"
    return f"0.5 * {x} * (1.0 + tl.erf({x} * 0.7071067811865476))"


def _elu(x: str, alpha: str = "1.0", scale: str = "1.0", input_scale: str = "1.0") -> str:
    inner = x if input_scale in ("1", "1.0") else f"{input_scale} * {x}"
    text = f"tl.where({x} > 0, {x}, {_scaled(f'libdevice.expm1({inner})', alpha)})"
    return text if scale in ("1", "1.0") else f"{scale} * {text}"


def _softplus(x: str, beta: str = "1.0", threshold: str = "20.0") -> str:
    if beta in ("1", "1.0"):
        return f"tl.where({x} > {threshold}, {x}, libdevice.log1p(tl.exp({x})))"
    return f"tl.where({x} * {beta} > {threshold}, {x}, libdevice.log1p(tl.exp({x} * {beta})) / {beta})"


def _sign(x: str) -> str:
    """In the type of x: what follows may need a float."""
    return f"({x} > 0).to({_typed(x)}.dtype) - ({x} < 0).to({_typed(x)}.dtype)"


def _extreme(sign: str) -> Callable[[str, str], str]:
    return lambda x, y: f"tl.where(({x} {sign} {y}) | ({x} != {x}), {x}, {y})"


def _hardtanh(x: str, low: str = "-1.0", high: str = "1.0") -> str:
    return _clamp(x, low, high)


def _leaky(x: str, slope: str = "0.01") -> str:
    return f"tl.where({x} > 0, {x}, {slope} * {x})"


def _round(x: str, decimals: str = "0") -> str:
    if decimals != "0":
        raise Inexpressible("round to decimals")
    return f"libdevice.rint({x})"


def _crosses(rest: str, y: str) -> str:
    """Whether rounding towards zero and rounding down differ."""
    return f"({rest} != 0) & (({rest} < 0) != ({y} < 0))"


def _mod(x: str, y: str) -> str:
    x, y = _typed(x), _typed(y)
    rest = f"libdevice.fmod({x}, {y})"
    return f"tl.where({_crosses(rest, y)}, {rest} + {y}, {rest})"


def _floor_divide(x: str, y: str) -> str:
    """As torch: from the remainder, for the quotient itself may be rounded up."""
    x, y = _typed(x), _typed(y)
    rest = f"libdevice.fmod({x}, {y})"
    down = f"libdevice.rint(({x} - {rest}) / {y} - tl.where({_crosses(rest, y)}, 1.0, 0.0))"
    return f"tl.where({y} == 0, {x} / {y}, {down})"


def _mod_integers(x: str, y: str) -> str:
    x, y = _typed(x), _typed(y)
    return f"tl.where({_crosses(f'({x} % {y})', y)}, {x} % {y} + {y}, {x} % {y})"


def _floor_divide_integers(x: str, y: str) -> str:
    x, y = _typed(x), _typed(y)
    return f"tl.where({_crosses(f'({x} % {y})', y)}, {x} // {y} - 1, {x} // {y})"


def _div_integers(x: str, y: str, rounding_mode: str = "None") -> str:
    return _floor_divide_integers(x, y) if rounding_mode == "'floor'" else f"{_typed(x)} // {_typed(y)}"


def _pow_integers(x: str, y: str) -> str:
    if y not in ("1", "2", "3", "4"):
        raise Inexpressible(f"an integer to the power {y}")
    return _pow(x, y)


def _mish(x: str) -> str:
    # tanh(log1p(e)) with e = exp(x) is n / (n + 2) with n = e (e + 2); written so that n may be infinite.
    return f"{x} / (1.0 + 2.0 / (tl.exp({x}) * (tl.exp({x}) + 2.0)))"


def _call(function: str) -> Callable[[str], str]:
    return lambda x: f"{function}({x})"


def _call_two(function: str) -> Callable[[str, str], str]:
    return lambda x, y: f"{function}({_typed(x)}, {_typed(y)})"


def _shift(sign: str) -> Callable[[str, str], str]:
    return lambda x, y: f"{_typed(x)} {sign} {_typed(y)}"


def _binary(sign: str) -> Callable[[str, str], str]:
    return lambda x, y: f"{x} {sign} {y}"


TABLE: dict[str, Callable[..., str]] = {
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _binary("*"),
    "div": _div,
    "true_divide": _div,
    "floor_divide": _floor_divide,
    "pow": _pow,
    "neg": lambda x: f"-{x}",
    "abs": _call("tl.abs"),
    "exp": _call("tl.exp"),
    "exp2": _call("tl.exp2"),
    "expm1": _call("libdevice.expm1"),
    "log": _call("tl.log"),
    "log2": _call("tl.log2"),
    "log10": _call("libdevice.log10"),
    "log1p": _call("libdevice.log1p"),
    "sqrt": _call("tl.sqrt"),
    "rsqrt": lambda x: f"1.0 / tl.sqrt({x})",
    "reciprocal": lambda x: f"1.0 / {x}",
    "square": lambda x: f"{x} * {x}",
    "sin": _call("tl.sin"),
    "cos": _call("tl.cos"),
    "tan": _call("libdevice.tan"),
    "asin": _call("libdevice.asin"),
    "acos": _call("libdevice.acos"),
    "atan": _call("libdevice.atan"),
    "atan2": _call_two("libdevice.atan2"),
    "hypot": _call_two("libdevice.hypot"),
    "lerp": lambda x, y, weight: f"{x} + {weight} * ({y} - {x})",
    "sinh": _call("libdevice.sinh"),
    "cosh": _call("libdevice.cosh"),
    "tanh": _call("libdevice.tanh"),
    "asinh": _call("libdevice.asinh"),
    "acosh": _call("libdevice.acosh"),
    "atanh": _call("libdevice.atanh"),
    "erf": _call("tl.erf"),
    "erfc": _call("libdevice.erfc"),
    "sigmoid": lambda x: f"1.0 / (1.0 + tl.exp(-{x}))",
    "relu": lambda x: f"tl.where({x} < 0, 0, {x})",
    "relu6": lambda x: _clamp(x, "0.0", "6.0"),
    "gelu": _gelu,
    "silu": lambda x: f"{x} / (1.0 + tl.exp(-{x}))",
    "mish": _mish,
    "softplus": _softplus,
    "elu": _elu,
    "leaky_relu": _leaky,
    "hardtanh": _hardtanh,
    "hardswish": lambda x: f"{x} * {_clamp(f'({x} + 3.0)', '0.0', '6.0')} / 6.0",
    "hardsigmoid": lambda x: f"{_clamp(f'({x} + 3.0)', '0.0', '6.0')} / 6.0",
    "clamp": _clamp,
    "clamp_min": lambda x, low: _clamp(x, low),
    "clamp_max": lambda x, high: _clamp(x, "None", high),
    "maximum": _extreme(">"),
    "minimum": _extreme("<"),
    "fmod": _call_two("libdevice.fmod"),
    "remainder": _mod,
    "floor": _call("libdevice.floor"),
    "ceil": _call("libdevice.ceil"),
    "trunc": _call("libdevice.trunc"),
    "round": _round,
    "sign": _sign,
    "sgn": _sign,
    "where": lambda c, x, y: f"tl.where({c}, {x}, {y})",
    "eq": _binary("=="),
    "ne": _binary("!="),
    "lt": _binary("<"),
    "le": _binary("<="),
    "gt": _binary(">"),
    "ge": _binary(">="),
    "logical_and": lambda x, y: f"({x} != 0) & ({y} != 0)",
    "logical_or": lambda x, y: f"({x} != 0) | ({y} != 0)",
    "logical_xor": lambda x, y: f"({x} != 0) ^ ({y} != 0)",
    "logical_not": lambda x: f"{x} == 0",
    "bitwise_and": _binary("&"),
    "bitwise_or": _binary("|"),
    "bitwise_xor": _binary("^"),
    "bitwise_not": lambda x: f"~{x}",
    "isnan": lambda x: f"{x} != {x}",
    "isinf": lambda x: f'tl.abs({x}) == float("inf")',
    "isfinite": lambda x: f'tl.abs({x}) < float("inf")',
    "clone": lambda x: x,
    "alias": lambda x: x,
    "lift_fresh_copy": lambda x: x,
    "detach": lambda x: x,
    "copy": lambda x, y: y,
    "_to_copy": lambda x: x,
    "fmax": lambda x, y: f"tl.maximum({x}, {y})",
    "fmin": lambda x, y: f"tl.minimum({x}, {y})",
    "copysign": _call_two("libdevice.copysign"),
    "erfinv": _call("libdevice.erfinv"),
    "lgamma": _call("libdevice.lgamma"),
    "__lshift__": _shift("<<"),
    "__rshift__": _shift(">>"),
    "bitwise_left_shift": _shift("<<"),
    "bitwise_right_shift": _shift(">>"),
}
_OF_INTEGERS: dict[str, Callable[..., str]] = {
    "div": _div_integers,
    "floor_divide": _floor_divide_integers,
    "remainder": _mod_integers,
    # Triton's `%` has the sign of the dividend, as in C.
    "fmod": lambda x, y: f"{_typed(x)} % {_typed(y)}",
    "pow": _pow_integers,
    **{name: (lambda x: x) for name in ("floor", "ceil", "trunc", "round")},
}
"""Entries that mean something else for integers."""
