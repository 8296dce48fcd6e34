"""libdevice under the interpreter: torch's numbers, CUDA's signatures, and a clear word where a function is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime.errors import InterpreterError

from autotriton.judge.interpreting import Interpreter

pytestmark = pytest.mark.interp
Forked = Callable[..., Any]


@triton.jit
def unary(x_ptr, out_ptr, N: tl.constexpr, FUNCTION: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(out_ptr + index, FUNCTION(tl.load(x_ptr + index)))


@triton.jit
def binary(x_ptr, y_ptr, out_ptr, N: tl.constexpr, FUNCTION: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(out_ptr + index, FUNCTION(tl.load(x_ptr + index), tl.load(y_ptr + index)))


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(torch, name) for name in ("floor", "ceil", "trunc", "erf", "erfc", "lgamma", "asinh", "signbit")},
    **{name: getattr(torch, name) for name in ("abs", "isnan", "isinf")},
    "atan": torch.atan,
    "rint": torch.round,
    "nearbyint": torch.round,
    "round": lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5),
    "llrint": lambda x: torch.round(x).long(),
    "exp10": lambda x: 10**x,
    "cbrt": lambda x: torch.sign(x) * x.abs() ** (1 / 3),
    "normcdf": torch.special.ndtr,
    "fast_expf": torch.exp,
    "finitef": torch.isfinite,
    "sinpi": lambda x: torch.sin(torch.pi * x),
    "tgamma": lambda x: torch.where(x > 0, torch.lgamma(x).exp(), torch.nan),
}
POSITIVE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")},
    "acosh": lambda x: torch.acosh(x + 1),
    "sqrt_rn": torch.sqrt,
    "rcp_rn": torch.reciprocal,
    "fast_logf": torch.log,
}
UNIT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("asin", "acos", "atanh", "erfinv")},
    "normcdfinv": torch.special.ndtri,
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("atan2", "fmod", "hypot", "copysign", "nextafter")},
    "pow": lambda x, y: torch.pow(x.abs(), y),
    "div_rn": torch.div,
    "fdim": lambda x, y: (x - y).clamp_min(0),
    "remainder": lambda x, y: x - y * torch.round(x / y),
}


def relative(got: torch.Tensor, right: torch.Tensor) -> float:
    """Largest difference relative to max(1, |right|); infinite where NaNs do not match."""
    both = got.double().isnan() & right.isnan()
    error = (got.double() - right).abs() / right.abs().clamp_min(1)
    return float(torch.where(both, torch.zeros_like(error), error).nan_to_num(nan=torch.inf).max())


def errors(dtype: str) -> dict[str, float]:
    Interpreter(__file__)
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = (2.5 * torch.randn(64)).to(kind)
    y = torch.rand(64).to(kind) + 0.5
    found = {}
    for table, given in ((UNARY, x), (POSITIVE, y), (UNIT, (y - 1) * 1.9)):
        for name, right in table.items():
            if dtype == "float64" and name.startswith(("fast_", "finitef")):
                continue  # for fp32 only, as on a GPU
            truth = right(given.double())
            shifted = given + 1 if name == "acosh" else given.abs() if name == "tgamma" else given
            truth = right(shifted.double()) if name == "tgamma" else truth
            out = torch.empty(64, dtype=kind if truth.is_floating_point() else truth.dtype)
            unary[(1,)](shifted, out, N=64, FUNCTION=getattr(libdevice, name))
            found[name] = relative(out, truth.double())
    for name, right in BINARY.items():
        out, first = torch.empty(64, dtype=kind), x.abs() if name == "pow" else x
        binary[(1,)](first, y, out, N=64, FUNCTION=getattr(libdevice, name))
        found[name] = relative(
            out, right(first, y).double() if name == "nextafter" else right(first.double(), y.double())
        )
    return found


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 2e-6), ("float64", 1e-12)])
def test_functions_agree_with_torch(forked: Forked, dtype: str, limit: float) -> None:
    found = forked(errors, dtype)
    assert len(found) >= 45
    assert {name: error for name, error in found.items() if error > limit} == {}


@triton.jit
def from_modules(x_ptr, out_ptr, N: tl.constexpr):
    index = tl.arange(0, N)
    x = tl.load(x_ptr + index)
    total = libdevice.tanh(x) + cuda_libdevice.tanh(x) + tl.extra.cuda.libdevice.tanh(x)
    scalar = libdevice.pow(tl.load(x_ptr), 2)
    tl.store(out_ptr + index, total + scalar + libdevice.fma(x, 2.0, 1.0))


def modules() -> float:
    Interpreter(__file__)
    x, out = torch.linspace(-2, 2, 16), torch.empty(16)
    from_modules[(1,)](x, out, N=16)
    right = 3 * torch.tanh(x.double()) + x[0] ** 2 + 2 * x.double() + 1
    return float((out - right).abs().max())


def test_every_way_to_import_it_works_with_blocks_scalars_and_literals(forked: Forked) -> None:
    assert forked(modules) < 1e-5


def refused(name: str, dtype: str) -> list[Any]:
    witness = Interpreter(__file__)
    out = torch.empty(4, dtype=getattr(torch, dtype))
    try:
        unary[(1,)](torch.ones(4, dtype=getattr(torch, dtype)), out, N=4, FUNCTION=getattr(libdevice, name))
    except InterpreterError as error:
        return [str(error), witness.unsupported]
    return ["", witness.unsupported]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_without_a_signature_are_refused_as_by_the_compiler(forked: Forked, dtype: str) -> None:
    error, unsupported = forked(refused, "tanh", dtype)
    assert "KeyError" in error
    assert unsupported is None


def test_a_function_nobody_wrote_is_no_verdict_on_the_kernel(forked: Forked) -> None:
    _, unsupported = forked(refused, "cyl_bessel_i0", "float32")
    assert "__nv_cyl_bessel_i0f" in unsupported
    _, unsupported = forked(refused, "fast_tanhf", "float32")  # AMD's only
    assert "fast_tanhf" in unsupported
