"""Element-wise operators of one tensor, with and without constants."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value, Wanted


def same(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    return Plan(operands[0].shape, layer=())


def _with(**choices: tuple[Any, ...]) -> Any:
    """Constants drawn from a list each; written as keywords of the layer too."""

    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        chosen = {name: builder.fixed.get(name, builder.rng.choice(values)) for name, values in choices.items()}
        layer = tuple(LayerArgument(value, name, name) for name, value in chosen.items())
        return Plan(operands[0].shape, {name: repr(value) for name, value in chosen.items()}, layer=layer)

    return rule


def _prelu(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2:
        return None
    channels = x.shape[1] if builder.rng.random() < 0.6 else 1
    arguments = (LayerArgument(channels, "num_parameters"),)
    return Plan(x.shape, weights=(Wanted("slope", (channels,), "pos", 0.25),), layer=arguments)


def _glu(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    dims = [axis for axis in range(x.rank) if x.shape[axis] % 2 == 0]
    if not dims:
        return None
    axis = dims[-1] if builder.rng.random() < 0.8 else builder.rng.choice(dims)
    dim = axis - x.rank if axis == x.rank - 1 else axis
    shape = tuple(size // 2 if place == axis else size for place, size in enumerate(x.shape))
    return Plan(shape, {"dim": dim}, layer=(LayerArgument(dim, "dim", "dim"),))


def _unary(name: str, *, spell: str = "torch. method", **more: Any) -> Op:
    """`torch.name(x)` and `x.name()`; `F` adds the functional form, `special` the one of torch.special."""
    forms = {
        "torch.": f"torch.{name}({{0}})",
        "method": f"{{0}}.{name}()",
        "F.": f"F.{name}({{0}})",
        "special": f"torch.special.{name}({{0}})",
    }
    return Op(name, "pointwise", same, tuple(forms[word] for word in spell.split()), **more)


def _one(b: float) -> float:
    return 1.0


def _exp(b: float) -> float:
    return math.exp(min(b, 10.0))


_ACTIVATIONS = (
    _unary("relu", spell="torch. F. method", layer="nn.ReLU", gives="nonneg", noun="activated"),
    _unary("relu6", spell="F.", layer="nn.ReLU6", gives="nonneg", bound=lambda b: 6.0, noun="activated"),
    Op("leaky_relu", "pointwise", _with(negative_slope=(0.01, 0.02, 0.1, 0.2)),
       ("F.leaky_relu({0}, negative_slope={negative_slope})", "F.leaky_relu({0}, {negative_slope})"), "nn.LeakyReLU"),
    Op("elu", "pointwise", _with(alpha=(1.0, 0.5, 1.5)), ("F.elu({0}, alpha={alpha})",), "nn.ELU"),
    _unary("selu", spell="torch. F.", layer="nn.SELU"),
    Op("celu", "pointwise", _with(alpha=(1.0, 1.3, 2.0)), ("torch.celu({0}, alpha={alpha})", "F.celu({0}, alpha={alpha})"), "nn.CELU", rarity=2),
    _unary("gelu", spell="F.", layer="nn.GELU"),
    Op("gelu_tanh", "pointwise", _with(approximate=("tanh",)), ("F.gelu({0}, approximate='tanh')",), "nn.GELU"),
    _unary("silu", spell="F.", layer="nn.SiLU"),
    _unary("mish", spell="F.", layer="nn.Mish"),
    Op("softplus", "pointwise", _with(beta=(1.0, 2.0), threshold=(20.0,)), ("F.softplus({0}, beta={beta})",), "nn.Softplus", gives="pos"),
    _unary("softsign", spell="F.", layer="nn.Softsign", gives="sym", bound=_one, rarity=2),
    _unary("tanhshrink", spell="F.", layer="nn.Tanhshrink", rarity=3),
    Op("softshrink", "pointwise", _with(lambd=(0.5, 0.1, 0.25)), ("F.softshrink({0}, {lambd})", "F.softshrink({0}, lambd={lambd})"), "nn.Softshrink", rarity=3),
    Op("hardshrink", "pointwise", _with(lambd=(0.5, 0.3)), ("F.hardshrink({0}, {lambd})", "torch.hardshrink({0}, {lambd})"), "nn.Hardshrink", rarity=3, jumps=True),
    Op("hardtanh", "pointwise", _with(min_val=(-1.0, -2.0), max_val=(1.0, 2.0)),
       ("F.hardtanh({0}, {min_val}, {max_val})", "F.hardtanh({0}, min_val={min_val}, max_val={max_val})"), "nn.Hardtanh", bound=lambda b: 2.0),
    _unary("hardswish", spell="F.", layer="nn.Hardswish"),
    _unary("hardsigmoid", spell="F.", layer="nn.Hardsigmoid", gives="unit", bound=_one),
    _unary("logsigmoid", spell="F.", layer="nn.LogSigmoid", rarity=2),
    Op("threshold", "pointwise", _with(threshold=(0.1, 0.0, 0.5), value=(0.0, -1.0)), ("F.threshold({0}, {threshold}, {value})",), "nn.Threshold", jumps=True, rarity=3),
    _unary("sigmoid", layer="nn.Sigmoid", gives="prob", bound=_one, noun="gate"),
    _unary("tanh", layer="nn.Tanh", gives="sym", bound=_one),
    Op("prelu", "pointwise", _prelu, ("F.prelu({0}, {w})", "torch.prelu({0}, {w})"), "nn.PReLU", rarity=2),
    Op("glu", "pointwise", _glu, ("F.glu({0}, dim={dim})",), "nn.GLU", rarity=2, noun="gated"),
    Op("swish_by_hand", "pointwise", same, ("{0} * torch.sigmoid({0})", "torch.sigmoid({0}) * {0}", "{0} * {0}.sigmoid()")),
    Op("quick_gelu", "pointwise", same, ("{0} * torch.sigmoid(1.702 * {0})",), rarity=2),
    Op("mish_by_hand", "pointwise", same, ("{0} * torch.tanh(F.softplus({0}))",)),
    Op("hardswish_by_hand", "pointwise", same, ("{0} * F.relu6({0} + 3.0) / 6.0", "{0} * torch.clamp({0} + 3, 0, 6) / 6"), rarity=2),
    Op("gelu_by_hand", "pointwise", same, ("0.5 * {0} * (1.0 + torch.erf({0} / math.sqrt(2.0)))",
       "0.5 * {0} * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * ({0} + 0.044715 * torch.pow({0}, 3.0))))")),
    Op("squared_relu", "pointwise", same, ("torch.relu({0}) ** 2", "F.relu({0}).square()", "torch.square(F.relu({0}))"), gives="nonneg", bound=lambda b: b * b, rarity=2),
)  # fmt: skip
_FUNCTIONS = (
    _unary("abs", gives="nonneg", exact=True),
    Op("neg", "pointwise", same, ("-{0}", "torch.neg({0})", "{0}.neg()"), exact=True, gives="real"),
    _unary("exp", gives="pos", limit=5.0, bound=_exp),
    _unary("exp2", gives="pos", limit=5.0, bound=_exp, rarity=2),
    _unary("expm1", limit=5.0, bound=_exp, rarity=2),
    _unary("log", takes="pos"),
    _unary("log2", takes="pos", rarity=2),
    _unary("log10", takes="pos", rarity=3),
    _unary("log1p", takes="nonneg", gives="nonneg", rarity=2),
    _unary("sqrt", takes="pos", gives="pos"),
    _unary("rsqrt", takes="pos", gives="pos", bound=lambda b: 4.0),
    Op("reciprocal", "pointwise", same, ("torch.reciprocal({0})", "1.0 / {0}", "{0}.reciprocal()"), takes="pos", gives="pos", bound=lambda b: 20.0, rarity=2),
    Op("square", "pointwise", same, ("torch.square({0})", "{0}.square()", "{0} ** 2", "{0} * {0}", "torch.pow({0}, 2)", "{0}.pow(2)"), gives="nonneg", bound=lambda b: b * b, limit=100.0),
    Op("cube", "pointwise", same, ("{0} ** 3", "torch.pow({0}, 3)", "{0} * {0} * {0}", "{0}.pow(3)"), bound=lambda b: b**3, limit=10.0, rarity=2),
    Op("pow_half", "pointwise", _with(exponent=(0.5, 1.5, 0.25, -0.5, 2.5)), ("torch.pow({0}, {exponent})", "{0} ** {exponent}", "{0}.pow({exponent})"), takes="pos", gives="pos", limit=20.0, bound=lambda b: b**2.5 + 4, rarity=2),
    _unary("sin", gives="sym", bound=_one),
    _unary("cos", gives="sym", bound=_one),
    _unary("tan", takes="sym", limit=1.0, bound=lambda b: 2.0, rarity=3),
    _unary("asin", takes="sym", limit=1.0, bound=lambda b: 1.6, rarity=3),
    _unary("acos", takes="sym", gives="nonneg", limit=1.0, bound=lambda b: 3.2, rarity=3),
    _unary("atan", bound=lambda b: 1.6, rarity=2),
    _unary("sinh", limit=4.0, bound=_exp, rarity=3),
    _unary("cosh", limit=4.0, bound=_exp, gives="above_one", rarity=3),
    _unary("asinh", rarity=3),
    _unary("acosh", takes="above_one", gives="nonneg", rarity=3),
    _unary("atanh", takes="sym", limit=1.0, rarity=3),
    _unary("erf", spell="torch. method special", gives="sym", bound=_one, rarity=2),
    _unary("erfc", spell="torch. method special", bound=lambda b: 2.0, rarity=3),
    _unary("erfinv", spell="torch. method", takes="sym", limit=1.0, rarity=3, half=False),
    _unary("expit", spell="special", gives="prob", bound=_one, rarity=3),
    Op("logit", "pointwise", _with(eps=(1e-6, 1e-3)), ("torch.logit({0}, eps={eps})", "{0}.logit(eps={eps})", "torch.special.logit({0}, eps={eps})"), takes="unit", rarity=3),
    _unary("sinc", rarity=3, half=False),
    _unary("lgamma", takes="pos", rarity=3),
    _unary("digamma", takes="pos", rarity=3),
    _unary("i0", limit=4.0, bound=_exp, rarity=3, half=False),
    _unary("i0e", spell="special", gives="unit", bound=_one, rarity=3, half=False),
    _unary("i1", spell="special", limit=4.0, bound=_exp, rarity=3, half=False),
    _unary("i1e", spell="special", gives="sym", bound=_one, rarity=3, half=False),
    _unary("entr", spell="special", takes="pos", rarity=3, half=False),
    _unary("ndtr", spell="special", gives="unit", bound=_one, rarity=3, half=False),
    _unary("log_ndtr", spell="special", rarity=3, half=False),
    _unary("erfcx", spell="special", takes="nonneg", gives="pos", bound=_one, rarity=3, half=False),
    _unary("deg2rad", rarity=3),
    _unary("rad2deg", limit=50.0, bound=lambda b: 60 * b, rarity=3),
    Op("nan_to_num", "pointwise", same, ("torch.nan_to_num({0})", "torch.nan_to_num({0}, nan=0.0)", "{0}.nan_to_num()"), rarity=3, exact=True),
    Op("log_abs", "pointwise", same, ("torch.log(torch.abs({0}) + 1.0)", "torch.log1p({0}.abs())"), gives="nonneg", rarity=2),
    Op("signed_sqrt", "pointwise", same, ("torch.sign({0}) * torch.sqrt(torch.abs({0}) + 1e-3)",), rarity=3, jumps=True),
    Op("polynomial", "pointwise", _with(a=(0.5, 0.25, -0.1), c=(1.0, -0.5, 0.3)), ("{a} * {0} ** 3 + {c} * {0}", "{0} * ({c} + {a} * {0} * {0})", "({a} * {0} + {c}) * {0}"), bound=lambda b: b**3, limit=10.0, rarity=2),
)  # fmt: skip
_STEPS = (
    _unary("floor", jumps=True, rarity=2),
    _unary("ceil", jumps=True, rarity=2),
    _unary("round", jumps=True, rarity=2),
    _unary("trunc", jumps=True, rarity=3),
    _unary("frac", jumps=True, rarity=3, gives="sym", bound=_one),
    _unary("sign", jumps=True, rarity=2, gives="sym", bound=_one),
    _unary("sgn", jumps=True, rarity=3, gives="sym", bound=_one),
)
_SCALARS = (
    Op("add_scalar", "pointwise", _with(c=(0.5, 1.0, -0.5, 2.0, 3.0, 0.1)), ("{0} + {c}", "torch.add({0}, {c})", "{c} + {0}"), bound=lambda b: b + 3),
    Op("sub_scalar", "pointwise", _with(c=(0.5, 1.0, 1.5, 0.25)), ("{0} - {c}", "torch.sub({0}, {c})"), bound=lambda b: b + 3),
    Op("rsub_scalar", "pointwise", _with(c=(1.0, 2.0, 0.5)), ("{c} - {0}", "torch.rsub({0}, {c})"), bound=lambda b: b + 3, rarity=2),
    Op("mul_scalar", "pointwise", _with(c=(0.5, 2.0, 0.1, 1.5, -1.0, 0.7071)), ("{0} * {c}", "torch.mul({0}, {c})", "{c} * {0}", "{0}.mul({c})"), bound=lambda b: 2 * b),
    Op("div_scalar", "pointwise", _with(c=(2.0, 3.0, 10.0, 1.5, 0.5)), ("{0} / {c}", "torch.div({0}, {c})", "{0}.div({c})"), bound=lambda b: 2 * b),
    Op("clamp", "pointwise", _with(low=(-1.0, -0.5, -2.0, 0.0), high=(1.0, 0.75, 2.0, 6.0)),
       ("torch.clamp({0}, {low}, {high})", "torch.clamp({0}, min={low}, max={high})", "{0}.clamp({low}, {high})", "{0}.clamp(min={low}, max={high})", "torch.clip({0}, {low}, {high})"), bound=lambda b: 6.0),
    Op("clamp_min", "pointwise", _with(low=(-1.0, 0.0, -0.5, 0.1)), ("torch.clamp({0}, min={low})", "torch.clamp_min({0}, {low})", "{0}.clamp(min={low})", "{0}.clamp_min({low})"), rarity=2),
    Op("clamp_max", "pointwise", _with(high=(1.0, 0.5, 2.0)), ("torch.clamp({0}, max={high})", "torch.clamp_max({0}, {high})", "{0}.clamp(max={high})"), rarity=2),
    Op("remainder_scalar", "pointwise", _with(c=(1.0, 2.0, 0.75)), ("torch.remainder({0}, {c})", "{0} % {c}", "{0}.remainder({c})"), jumps=True, rarity=3, gives="nonneg", bound=lambda b: 2.0),
    Op("fmod_scalar", "pointwise", _with(c=(1.5, 2.0)), ("torch.fmod({0}, {c})", "{0}.fmod({c})"), jumps=True, rarity=3, bound=lambda b: 2.0),
    Op("temperature", "pointwise", _with(c=(0.7, 1.5, 2.0)), ("{0} / {c}", "{0} * (1.0 / {c})"), bound=lambda b: 2 * b, rarity=2),
    Op("to_float", "pointwise", lambda b, op, xs: Plan(xs[0].shape, dtype="float32") if xs[0].dtype in ("float16", "bfloat16") else None,
       ("{0}.float()", "{0}.to(torch.float32)"), exact=True),
    Op("to_half", "pointwise", lambda b, op, xs: Plan(xs[0].shape, dtype="float16") if xs[0].dtype == "float32" and not b.module else None,
       ("{0}.half()", "{0}.to(torch.float16)"), limit=100.0, rarity=3),
)  # fmt: skip
OPS = (*_ACTIVATIONS, *_FUNCTIONS, *_STEPS, *_SCALARS)
ACTIVATIONS = tuple(op.name for op in _ACTIVATIONS)
COMMON = ("relu", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "selu", "mish", "softplus", "hardswish", "hardsigmoid", "hardtanh", "relu6", "gelu_tanh", "swish_by_hand", "mish_by_hand")  # fmt: skip
SCALARS = ("add_scalar", "sub_scalar", "mul_scalar", "div_scalar", "clamp", "clamp_min", "clamp_max", "temperature")
