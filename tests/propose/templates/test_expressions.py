"""Every element-wise operator against torch, over special values: NaN, infinities, both zeros, huge and tiny ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample, run_all  # noqa: E402

from autotriton.propose.compiler.templates.expressions import TABLE  # noqa: E402

pytestmark = pytest.mark.interp

_SPECIAL = (
    "[float('nan'), float('inf'), -float('inf'), 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.5, 3.0, -3.0, "
    "6.0, 1e-6, -1e-6, 1e-30, 20.5, -20.5, 80.0, -80.0, 1e4, -1e4, 3e38, -3e38]"
)
# Without the two largest, for which torch's own `fmod` on a CPU gives NaN.
_PAIRS = f"torch.tensor({_SPECIAL}[:-2]).repeat_interleave(25), torch.tensor({_SPECIAL}[:-2]).repeat(25)"
_INTEGERS = "[0, 1, -1, 2, -2, 7, -7, 5, -5, 100, -100, 3]"
_INTEGER_PAIRS = f"torch.tensor({_INTEGERS}).repeat_interleave(11), torch.tensor({_INTEGERS}[1:]).repeat(12)"


def _each(names: str, arguments: str, prefix: str = "") -> dict[str, str]:
    return {f"{prefix}{name}": f"torch.{name}({arguments})" for name in names.split()}


_STEPS = ("sign", "sgn", "floor", "round", "relu", "frac", "isnan")
UNARY = {
    **_each("neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan asin acos atan", "x"),
    **_each("sinh cosh tanh asinh acosh atanh erf erfc sigmoid relu floor ceil trunc round sign sgn logical_not", "x"),
    **_each("isnan isinf isfinite frac erfinv lgamma", "x"),
    # What follows takes floats only: a result must come in the type torch gives it.
    **{f"{name}_sigmoid": f"torch.sigmoid(torch.{name}(x))" for name in _STEPS},
    "heaviside_sigmoid": "torch.sigmoid(torch.heaviside(x, x))",
    "where_sigmoid": "torch.sigmoid(torch.where(x > 0, 1, 0))",
    "relu6": "F.relu6(x)",
    "log_sigmoid": "F.logsigmoid(x)",
    "gelu": "F.gelu(x)",
    "gelu_tanh": "F.gelu(x, approximate='tanh')",
    "silu": "F.silu(x)",
    "mish": "F.mish(x)",
    "softplus": "F.softplus(x)",
    "softplus_beta": "F.softplus(x, beta=2.0, threshold=5.0)",
    "elu": "F.elu(x, alpha=0.7)",
    "selu": "F.selu(x)",
    "celu": "F.celu(x, alpha=1.3)",
    "leaky_relu": "F.leaky_relu(x, 0.2)",
    "hardtanh": "F.hardtanh(x, -0.7, 1.2)",
    "hardswish": "F.hardswish(x)",
    "hardsigmoid": "F.hardsigmoid(x)",
    "hardshrink": "F.hardshrink(x)",
    "softshrink": "F.softshrink(x)",
    "threshold": "F.threshold(x, 0.1, 20.0)",
    "clamp": "torch.clamp(x, -1.0, 2.0)",
    "clamp_crossed": "torch.clamp(x, 2.0, -1.0)",
    "clamp_min": "torch.clamp_min(x, -1.0)",
    "clamp_max": "torch.clamp_max(x, 2.0)",
    "rsub": "torch.rsub(x, 2.0, alpha=3)",
    "nan_to_num": "torch.nan_to_num(x)",
    "to_bool": "x.to(torch.bool)",
    **{f"pow_{number}": f"torch.pow(x, {number})" for number in ("2", "3", "-1", "-2", "4", "0.5", "-0.5", "1.7", "0")},
    "pow_of_number": "torch.pow(2.0, x)",
    "pow_of_whole_number": "torch.pow(2, x)",
    "compared": "x > 1",
    "compared_equal": "x == 3",
    "where_number": "torch.where(x > 0, x, 0.0)",
}
BINARY = {
    **_each("add sub mul div pow atan2 maximum minimum fmax fmin fmod remainder copysign eq ne lt le gt ge", "x, y"),
    **_each("logical_and logical_or logical_xor floor_divide hypot logaddexp xlogy", "x, y"),
    "add_scaled": "torch.add(x, y, alpha=0.3)",
    "sub_scaled": "torch.sub(x, y, alpha=0.3)",
    "div_floor": "torch.div(x, y, rounding_mode='floor')",
    "div_trunc": "torch.div(x, y, rounding_mode='trunc')",
    "where": "torch.where(x > y, x, y)",
    "clamp_tensor": "torch.clamp(x, min=y)",
    "to_double": "x.to(torch.float64)",
    "lerp": "torch.lerp(x, y, 0.3)",
}
INTEGERS = {
    **_each(
        "add sub mul div maximum minimum fmod remainder floor_divide eq lt ge logical_and logical_or", "x, y", "i_"
    ),
    **_each("logical_xor bitwise_and bitwise_or bitwise_xor", "x, y", "i_"),
    **_each("neg abs sign floor ceil trunc round relu square bitwise_not logical_not sqrt exp", "x", "i_"),
    **_each("isnan isinf isfinite", "x", "i_"),
    "i_div_floor": "torch.div(x, y, rounding_mode='floor')",
    "i_div_trunc": "torch.div(x, y, rounding_mode='trunc')",
    "i_bitwise_left_shift": "torch.bitwise_left_shift(x, 3)",
    "i_bitwise_right_shift": "torch.bitwise_right_shift(x, y.abs() % 8)",
    "i___lshift__": "x << 3",
    "i___rshift__": "x >> (y.abs() % 8)",
    "i_pow": "torch.pow(x, 2)",
    "i_clamp": "torch.clamp(x, -3, 3)",
    "i_half": "x * 0.5",
    "i_byte": "x.to(torch.uint8)",
    "i_large": "x * 5_000_000_000",
}
BOOLS = {
    **_each("add mul maximum minimum eq ne lt le logical_and logical_or logical_xor", "x > 0, y > 0", "b_"),
    **_each("bitwise_and bitwise_or bitwise_xor", "x > 0, y > 0", "b_"),
    **_each("bitwise_not logical_not", "x > 0", "b_"),
    "b_plus_number": "(x > 0) + 1",
    "b_times_float": "(x > 0) * 0.5",
    "b_where": "torch.where(x > 0, y > 0, x < y)",
    "b_float": "(x > 0).float()",
}
GROUPS = {
    "float": (UNARY, f"torch.tensor({_SPECIAL})", "x"),
    "double": (UNARY, f"torch.tensor({_SPECIAL}).double()", "x"),
    "binary": (BINARY, _PAIRS, "x, y"),
    "integers": (INTEGERS, _INTEGER_PAIRS, "x, y"),
    "bools": (BOOLS, _INTEGER_PAIRS, "x, y"),
}
CASES = [(group, name) for group, (entries, _, _) in GROUPS.items() for name in entries]
ABSOLUTE = {"gelu": 1e-6, "gelu_tanh": 1e-6, "erfinv": 1e-12}
"""Where 1 + tanh or 1 + erf cancels, as it does in torch's own kernels; and what the interpreter knows of erfinv."""
OF_THE_TYPE = ("nan_to_num", "hardswish")
"""Where the largest number of the type decides."""
_COPIES = {"clone", "alias", "lift_fresh_copy", "detach", "copy", "_to_copy"}
_OTHERWISE_NAMED = {"true_divide"}


def _sample(entries: dict[str, str], drawn: str, inputs: str) -> Sample:
    return Sample("return {" + ", ".join(f"{name!r}: {text}" for name, text in entries.items()) + "}", drawn, inputs)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    samples = {group: _sample(*given) for group, given in GROUPS.items()}
    return run_all(samples, tmp_path_factory.mktemp("expressions"))


def test_every_entry_of_the_table_is_tried():
    tried = {name.removeprefix("i_").removeprefix("b_") for _, name in CASES}
    assert set(TABLE) - tried <= _COPIES | _OTHERWISE_NAMED


@pytest.mark.parametrize(("group", "name"), CASES, ids=lambda value: value)
def test_an_expression_means_what_the_operator_means(results: dict[str, Any], group: str, name: str):
    assert not isinstance(results[group], str), results[group]
    ((found, expected),) = results[group]
    if group == "float" and name not in OF_THE_TYPE:
        # torch's own fp32 functions on a CPU are coarse in places: `gelu(-3)` has an error of 1e-4
        expected = {name: exact.to(found[name].dtype) for name, exact in results["double"][0][1].items()}
    torch.testing.assert_close(found[name], expected[name], rtol=3e-6, atol=ABSOLUTE.get(name, 1e-37), equal_nan=True)
