"""libdevice for the interpreter, where Triton's own stubs silently return None.

Calls go through the CUDA signatures, so that a type the GPU refuses is refused here; the functions behind the symbols
are numpy's, in the argument's precision. A symbol without one is `NotImplementedError`: no verdict on the kernel.
"""

from __future__ import annotations

import importlib
import inspect
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

_MODULES = ("libdevice", "cuda.libdevice", "hip.libdevice")


def patch_libdevice() -> None:
    """Replace the stubs in every place candidates import them from."""
    builder: Any = interpreter.InterpreterBuilder
    builder.create_extern_elementwise = _call
    builder.get_block_ty = lambda self, dtype, shape: tl.block_type(dtype, shape)
    signatures = vars(importlib.import_module("triton.language.extra.cuda.libdevice"))
    functions = {name: value for name, value in signatures.items() if getattr(value, "__triton_builtin__", False)}
    for path in _MODULES:
        module = importlib.import_module(f"triton.language.extra.{path}")
        for name, value in list(vars(module).items()):
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                setattr(module, name, _interpreted(functions[name]) if name in functions else _missing(name))


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, "_semantic": interpreter.interpreter_semantic})

    return call


def _missing(name: str) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} does not exist for CUDA")

    return call


def _call(builder: Any, library: str, path: str, symbol: str, args: list[Any], returns: Any, pure: bool) -> Any:
    function = _find(symbol)
    if function is None:
        raise NotImplementedError(f"{symbol} is not known to the interpreter")
    with np.errstate(all="ignore"):
        result = np.asarray(function(*(arg.data for arg in args)))
    return interpreter.TensorHandle(result.astype(interpreter._get_np_dtype(returns.scalar)), returns.scalar)


def _find(symbol: str) -> Callable[..., Any] | None:
    """`__nv_tanhf` and `__nv_tanh` are both tanh; predicates on doubles end in d, on 64-bit integers in ll."""
    name = symbol.removeprefix("__nv_")
    names = (name, *(name.removesuffix(ending) for ending in ("f", "d", "ll")))
    return next((_FUNCTIONS[known] for known in names if known in _FUNCTIONS), None)


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


def _round(x: Any) -> Any:
    """Halves away from zero; adding a half first would round 0.49999997 up."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _remainder(x: float, y: float) -> float:
    """IEEE: the quotient is rounded to nearest, not down."""
    return math.remainder(x, y) if math.isfinite(x) and y else math.nan


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except (OverflowError, ValueError):
        return math.inf if x > 0 or x == 0 else math.nan


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):  # a pole: zero and the negative whole numbers
        return math.inf


def _normcdf_inverse(p: float) -> float:
    if p in (0.0, 1.0):
        return math.copysign(math.inf, p - 0.5)
    return statistics.NormalDist().inv_cdf(p) if 0 < p < 1 else math.nan


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "fabs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "round": _round,
    "rint": np.rint,
    "nearbyint": np.rint,
    "llrint": np.rint,
    "llround": _round,
    "copysign": np.copysign,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "powi": np.power,
    "fmod": np.fmod,
    "remainder": _each(_remainder),
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "lgamma": _each(_log_gamma),
    "tgamma": _each(_gamma),
    "erfinv": _each(lambda x: _normcdf_inverse((x + 1) / 2) / math.sqrt(2)),
    "normcdfinv": _each(_normcdf_inverse),
    "normcdf": _each(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "nextafter": np.nextafter,
    "ldexp": np.ldexp,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "saturate": lambda x: np.clip(x, 0, 1),
    "add_rn": np.add,
    "fadd_rn": np.add,
    "dadd_rn": np.add,
    "fsub_rn": np.subtract,
    "dsub_rn": np.subtract,
    "fmul_rn": np.multiply,
    "dmul_rn": np.multiply,
    "fdiv_rn": np.divide,
    "ddiv_rn": np.divide,
    "fsqrt_rn": np.sqrt,
    "dsqrt_rn": np.sqrt,
    "frcp_rn": lambda x: 1 / x,
    "drcp_rn": lambda x: 1 / x,
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fmaf_rn": lambda x, y, z: x.astype(np.float64) * y + z,
    "fast_exp": np.exp,
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_tanh": np.tanh,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_pow": np.power,
    "fast_fdivide": np.divide,
    "float2int_rn": np.rint,
    "float2int_rz": np.trunc,
    "float2int_rd": np.floor,
    "float2int_ru": np.ceil,
    "int2float_rn": lambda x: x,
    "double2float_rn": lambda x: x,
    "float_as_int": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32),
}
