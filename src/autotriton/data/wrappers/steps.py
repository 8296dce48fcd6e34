"""Pointwise steps and chains of them, each as torch text, as kernel text and as a formula.

Must stay true: a step that jumps (floor, threshold) only meets the input itself, since behind arithmetic rounding would
decide the answer; a step with a domain only meets values that lie in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import Scalar


@dataclass(frozen=True)
class Step:
    """`{x}` stands for the operand."""

    name: str
    torch: str
    triton: str
    math: str
    words: str
    scalars: tuple[Scalar, ...] = ()
    definition: str = ""
    """What the formula's function means, where it is not plain."""
    needs: str = "any"
    gives: str = "any"
    bounded: bool = False
    grows: bool = False
    jumps: bool = False
    listed: bool = True
    """A torch function of this name exists and is worth asking for alone."""


def _s(name: str, default: str, low: float, high: float, about: str) -> Scalar:
    return Scalar(name, default, low, high, about)


_SCALE = _s("scale", "1.0", 0.3, 2.5, "factor")
_SHIFT = _s("shift", "0.0", -1.5, 1.5, "number that is added")
_SLOPE = _s("negative_slope", "0.01", 0.02, 0.4, "slope for negative values")
_ALPHA = _s("alpha", "1.0", 0.3, 2.0, "scale of the negative part")
_BETA = _s("beta", "1", 0.5, 2.0, "sharpness of the bend")
_LIMIT = _s("threshold", "20", 5.0, 20.0, "above `beta * x > threshold` the function is the identity")
_LAMBD = _s("lambd", "0.5", 0.2, 0.9, "half width of the interval that is shrunk to zero")
_SELU = "1.0507009873554805"

STEPS = (
    Step("abs", "torch.abs({x})", "tl.abs({x})", "|{x}|", "takes the absolute value", gives="nonneg"),
    Step("neg", "torch.neg({x})", "-{x}", "-{x}", "flips the sign"),
    Step("square", "torch.square({x})", "{x} * {x}", "{x}^2", "squares", gives="nonneg"),
    Step("exp", "torch.exp({x})", "tl.exp({x})", "exp({x})", "takes the exponential", gives="positive", grows=True),
    Step("exp2", "torch.exp2({x})", "tl.exp2({x})", "2^{x}", "raises 2 to the value", gives="positive", grows=True),
    Step("expm1", "torch.expm1({x})", "libdevice.expm1({x})", "exp({x}) - 1", "takes the exponential minus one, exact near zero", grows=True),
    Step("log", "torch.log({x})", "tl.log({x})", "ln({x})", "takes the natural logarithm", needs="positive"),
    Step("log2", "torch.log2({x})", "tl.log2({x})", "log2({x})", "takes the logarithm to base 2", needs="positive"),
    Step("log1p", "torch.log1p({x})", "libdevice.log1p({x})", "ln(1 + {x})", "takes the logarithm of one plus the value", needs="nonneg", gives="nonneg"),
    Step("sqrt", "torch.sqrt({x})", "tl.sqrt({x})", "sqrt({x})", "takes the square root", needs="nonneg", gives="nonneg"),
    Step("rsqrt", "torch.rsqrt({x})", "tl.rsqrt({x})", "1 / sqrt({x})", "takes the reciprocal of the square root", needs="positive", gives="positive"),
    Step("reciprocal", "torch.reciprocal({x})", "1.0 / {x}", "1 / {x}", "takes the reciprocal", needs="positive", gives="positive"),
    Step("sigmoid", "torch.sigmoid({x})", "1.0 / (1.0 + tl.exp(-{x}))", "sigmoid({x})", "applies the logistic sigmoid", definition="sigmoid(v) = 1 / (1 + exp(-v))", gives="positive", bounded=True),
    Step("tanh", "torch.tanh({x})", "libdevice.tanh({x})", "tanh({x})", "applies the hyperbolic tangent", bounded=True),
    Step("sin", "torch.sin({x})", "tl.sin({x})", "sin({x})", "takes the sine", bounded=True),
    Step("cos", "torch.cos({x})", "tl.cos({x})", "cos({x})", "takes the cosine", bounded=True),
    Step("atan", "torch.atan({x})", "libdevice.atan({x})", "atan({x})", "takes the inverse tangent", bounded=True),
    Step("asinh", "torch.asinh({x})", "libdevice.asinh({x})", "asinh({x})", "takes the inverse hyperbolic sine"),
    Step("sinh", "torch.sinh({x})", "libdevice.sinh({x})", "sinh({x})", "takes the hyperbolic sine", grows=True),
    Step("cosh", "torch.cosh({x})", "libdevice.cosh({x})", "cosh({x})", "takes the hyperbolic cosine", grows=True, gives="positive"),
    Step("tan", "torch.tan({x})", "libdevice.tan({x})", "tan({x})", "takes the tangent", needs="unit", gives="nonneg", bounded=True),
    Step("asin", "torch.asin({x})", "libdevice.asin({x})", "asin({x})", "takes the inverse sine", needs="unit", gives="nonneg", bounded=True),
    Step("acos", "torch.acos({x})", "libdevice.acos({x})", "acos({x})", "takes the inverse cosine", needs="unit", gives="nonneg", bounded=True),
    Step("atanh", "torch.atanh({x})", "libdevice.atanh({x})", "atanh({x})", "takes the inverse hyperbolic tangent", needs="unit", gives="nonneg", bounded=True),
    Step("log10", "torch.log10({x})", "libdevice.log10({x})", "log10({x})", "takes the logarithm to base 10", needs="positive"),
    Step("erfinv", "torch.erfinv({x})", "libdevice.erfinv({x})", "erfinv({x})", "applies the inverse of the error function", needs="unit", gives="nonneg", bounded=True),
    Step("lgamma", "torch.lgamma({x})", "libdevice.lgamma({x})", "ln(|gamma({x})|)", "takes the logarithm of the gamma function", needs="positive"),
    Step("frac", "torch.frac({x})", "{x} - libdevice.trunc({x})", "{x} - trunc({x})", "keeps the fractional part", jumps=True),
    Step("rad2deg", "torch.rad2deg({x})", "{x} * 57.29577951308232", "{x} * 180 / pi", "converts radians to degrees"),
    Step("erf", "torch.erf({x})", "tl.erf({x})", "erf({x})", "applies the error function", bounded=True),
    Step("erfc", "torch.erfc({x})", "libdevice.erfc({x})", "erfc({x})", "applies the complementary error function", bounded=True, gives="nonneg"),
    Step("relu", "torch.relu({x})", "tl.maximum({x}, 0.0)", "max({x}, 0)", "applies the rectified linear unit", gives="nonneg"),
    Step("relu6", "F.relu6({x})", "tl.minimum(tl.maximum({x}, 0.0), 6.0)", "min(max({x}, 0), 6)", "applies ReLU capped at 6", gives="nonneg", bounded=True),
    Step("leaky_relu", "F.leaky_relu({x}, negative_slope)", "tl.where({x} > 0, {x}, negative_slope * {x})", "leaky_relu({x})", "applies the leaky rectified linear unit", (_SLOPE,), "leaky_relu(v) = v for v > 0, otherwise negative_slope * v"),
    Step("elu", "F.elu({x}, alpha)", "tl.where({x} > 0, {x}, alpha * libdevice.expm1({x}))", "elu({x})", "applies the exponential linear unit", (_ALPHA,), "elu(v) = v for v > 0, otherwise alpha * (exp(v) - 1)"),
    Step("celu", "F.celu({x}, alpha)", "tl.where({x} > 0, {x}, alpha * libdevice.expm1({x} / alpha))", "celu({x})", "applies the continuously differentiable ELU", (_ALPHA,), "celu(v) = max(0, v) + min(0, alpha * (exp(v / alpha) - 1))"),
    Step("selu", "F.selu({x})", f"{_SELU} * tl.where({{x}} > 0, {{x}}, 1.6732632423543772 * libdevice.expm1({{x}}))", "selu({x})", "applies the scaled exponential linear unit", definition=f"selu(v) = {_SELU} * (v if v > 0 else 1.6732632423543772 * (exp(v) - 1))"),
    Step("silu", "F.silu({x})", "{x} / (1.0 + tl.exp(-{x}))", "silu({x})", "applies SiLU (swish)", definition="silu(v) = v * sigmoid(v)"),
    Step("mish", "F.mish({x})", "{x} * libdevice.tanh(tl.where({x} > 20.0, {x}, libdevice.log1p(tl.exp({x}))))", "mish({x})", "applies Mish", definition="mish(v) = v * tanh(ln(1 + exp(v)))"),
    Step("gelu", "F.gelu({x})", "0.5 * {x} * (1.0 + tl.erf({x} * 0.7071067811865476))", "gelu({x})", "applies the exact GELU", definition="gelu(v) = v / 2 * (1 + erf(v / sqrt(2)))"),
    Step("gelu_tanh", 'F.gelu({x}, approximate="tanh")', "0.5 * {x} * (1.0 + libdevice.tanh(0.7978845608028654 * ({x} + 0.044715 * {x} * {x} * {x})))", "gelu_tanh({x})", "applies GELU in its tanh approximation", definition="gelu_tanh(v) = v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3)))"),
    Step("softplus", "F.softplus({x}, beta, threshold)", "tl.where({x} * beta > threshold, {x}, libdevice.log1p(tl.exp({x} * beta)) / beta)", "softplus({x})", "applies softplus", (_BETA, _LIMIT), "softplus(v) = ln(1 + exp(beta * v)) / beta, and v itself where beta * v > threshold", gives="nonneg"),
    Step("softsign", "F.softsign({x})", "{x} / (1.0 + tl.abs({x}))", "{x} / (1 + |{x}|)", "applies softsign", bounded=True),
    Step("tanhshrink", "F.tanhshrink({x})", "{x} - libdevice.tanh({x})", "{x} - tanh({x})", "subtracts the value's hyperbolic tangent from it"),
    Step("hardtanh", "F.hardtanh({x}, min_val, max_val)", "tl.minimum(tl.maximum({x}, min_val), max_val)", "min(max({x}, min_val), max_val)", "limits values to the interval from min_val to max_val", (_s("min_val", "-1.0", -1.5, -0.3, "lower end"), _s("max_val", "1.0", 0.3, 1.5, "upper end")), bounded=True),
    Step("hardsigmoid", "F.hardsigmoid({x})", "tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0", "min(max({x} + 3, 0), 6) / 6", "applies the piecewise linear sigmoid", bounded=True, gives="nonneg"),
    Step("hardswish", "F.hardswish({x})", "{x} * tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0", "{x} * min(max({x} + 3, 0), 6) / 6", "applies hard swish"),
    Step("logsigmoid", "F.logsigmoid({x})", "tl.minimum({x}, 0.0) - libdevice.log1p(tl.exp(-tl.abs({x})))", "ln(sigmoid({x}))", "takes the logarithm of the sigmoid"),
    Step("softshrink", "F.softshrink({x}, lambd)", "tl.where({x} > lambd, {x} - lambd, tl.where({x} < -lambd, {x} + lambd, 0.0))", "softshrink({x})", "pulls values towards zero by lambd", (_LAMBD,), "softshrink(v) = v - lambd for v > lambd, v + lambd for v < -lambd, otherwise 0"),
    Step("hardshrink", "F.hardshrink({x}, lambd)", "tl.where(tl.abs({x}) > lambd, {x}, 0.0)", "hardshrink({x})", "sets values of magnitude at most lambd to zero", (_LAMBD,), "hardshrink(v) = v for |v| > lambd, otherwise 0", jumps=True),
    Step("threshold", "F.threshold({x}, threshold, value)", "tl.where({x} > threshold, {x}, value)", "threshold({x})", "replaces values that are not above a threshold", (_s("threshold", "0.0", -0.5, 0.5, "values above it stay"), _s("value", "0.0", -2.0, 2.0, "what the others become")), "threshold(v) = v for v > threshold, otherwise value", jumps=True),
    Step("floor", "torch.floor({x})", "tl.floor({x})", "floor({x})", "rounds down", jumps=True),
    Step("ceil", "torch.ceil({x})", "tl.ceil({x})", "ceil({x})", "rounds up", jumps=True),
    Step("trunc", "torch.trunc({x})", "libdevice.trunc({x})", "trunc({x})", "drops the fractional part", jumps=True),
    Step("round", "torch.round({x})", "libdevice.rint({x})", "round({x})", "rounds to the nearest whole number, halves to even", jumps=True),
    Step("sign", "torch.sign({x})", "tl.where({x} > 0, 1.0, tl.where({x} < 0, -1.0, 0.0))", "sign({x})", "takes the sign", jumps=True),
    Step("deg2rad", "torch.deg2rad({x})", "{x} * 0.017453292519943295", "{x} * pi / 180", "converts degrees to radians"),
    Step("logit", "torch.logit({x}, eps)", "tl.log(tl.minimum(tl.maximum({x}, eps), 1.0 - eps) / (1.0 - tl.minimum(tl.maximum({x}, eps), 1.0 - eps)))", "logit({x})", "takes the log odds", (_s("eps", "1e-6", 0.01, 0.1, "values are first limited to [eps, 1 - eps]"),), "logit(v) = ln(z / (1 - z)) with z = min(max(v, eps), 1 - eps)", needs="unit"),
    Step("pow", "torch.pow({x}, exponent)", "libdevice.pow({x}, exponent)", "{x}^exponent", "raises to a power", (_s("exponent", "2.0", 0.5, 2.5, "the power"),), needs="positive", gives="positive"),
    Step("scale", "{x} * scale", "{x} * scale", "scale * {x}", "multiplies by a factor", (_SCALE,), listed=False),
    Step("shift", "{x} + shift", "{x} + shift", "({x} + shift)", "adds a number", (_SHIFT,), listed=False),
    Step("affine", "{x} * scale + shift", "{x} * scale + shift", "(scale * {x} + shift)", "multiplies by a factor and adds a number", (_SCALE, _SHIFT), listed=False),
    Step("div", "{x} / divisor", "{x} / divisor", "{x} / divisor", "divides by a number", (_s("divisor", "1.0", 0.5, 3.0, "the divisor"),), listed=False),
    Step("rsub", "minuend - {x}", "minuend - {x}", "(minuend - {x})", "subtracts the value from a number", (_s("minuend", "1.0", -1.0, 2.0, "what is subtracted from"),), listed=False),
    Step("clamp_min", "torch.clamp({x}, min=lower)", "tl.maximum({x}, lower)", "max({x}, lower)", "raises values below a bound to it", (_s("lower", "0.0", -0.8, 0.3, "the lower bound"),), listed=False),
    Step("clamp_max", "torch.clamp({x}, max=upper)", "tl.minimum({x}, upper)", "min({x}, upper)", "lowers values above a bound to it", (_s("upper", "1.0", 0.2, 1.2, "the upper bound"),), listed=False),
)  # fmt: skip
_INSIDE = {"any": {"any"}, "nonneg": {"any", "nonneg"}, "positive": {"any", "nonneg", "positive"}}
"""What values of a domain may meet."""


@dataclass(frozen=True)
class Chain:
    """Steps one after the other."""

    steps: tuple[Step, ...]

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(scalar for step in self.steps for scalar in step.scalars)

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.steps]

    @property
    def domain(self) -> str:
        return self.steps[0].needs if self.steps else "any"

    @property
    def definitions(self) -> list[str]:
        return list(dict.fromkeys(step.definition for step in self.steps if step.definition))

    def torch(self, x: str) -> str:
        """One nested expression."""
        for step in self.steps:
            x = _put(step.torch, x)
        return x

    def torch_lines(self, x: str, name: str) -> list[str]:
        lines = []
        for step in self.steps:
            lines.append(f"{name} = {step.torch.format(x=x)}")
            x = name
        return lines

    def lines(self, x: str, name: str) -> list[str]:
        """Kernel statements that leave the result in `name`."""
        lines = []
        for step in self.steps:
            lines.append(f"{name} = {step.triton.format(x=x)}")
            x = name
        return lines

    def math(self, x: str) -> str:
        for step in self.steps:
            x = _put(step.math, x)
        return x

    @property
    def words(self) -> str:
        said = [step.words for step in self.steps]
        return said[0] if len(said) == 1 else ", then ".join(said)


def chain(
    draw: Random, count: int, *, domain: str = "any", first: bool = True, taken: frozenset[str] = frozenset()
) -> Chain:
    """`count` steps that fit together. `first`: the chain meets an input, whose domain may be chosen."""
    steps: list[Step] = []
    used, grown, bounded, now = set(taken), False, first, domain
    while len(steps) < count:
        fresh = first and not steps
        step = draw.choice(STEPS)
        if {scalar.name for scalar in step.scalars} & used or any(step.name == other.name for other in steps):
            continue
        if step.jumps and not (fresh and domain == "any"):
            continue
        if step.grows and (grown or not bounded):
            continue
        if step.needs != "any" and not (fresh and domain == "any") and step.needs not in _INSIDE[now]:
            continue
        steps.append(step)
        used |= {scalar.name for scalar in step.scalars}
        grown, bounded, now = grown or step.grows, step.bounded, step.gives
    return Chain(tuple(steps))


def _put(template: str, x: str) -> str:
    """The operand in its place, in brackets where it needs them."""
    bare = "{x}" in template.replace("({x}", "").replace("|{x}|", "")
    return template.format(x=f"({x})" if bare and _compound(x) else x)


def _compound(text: str) -> bool:
    """Has an operator outside of all brackets."""
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter in "+-*/^":
            return True
    return False
