"""Numbers as people read them, the same on the screen and on the page, and which of many to show."""

from __future__ import annotations

import math
from typing import Any

from autotriton.types import Check, Speedup, Verdict

NONE = "-"
"""For what was not measured."""
NOT_MEASURED = "not measured"


def worst_check(verdict: Verdict) -> Check | None:
    """The case that comes closest to the error it is allowed, or goes beyond it."""
    measured = [check for check in verdict.checks if check.max_error is not None]
    return max(measured, key=_strain, default=None)


def _strain(check: Check) -> float:
    assert check.max_error is not None
    if not check.passed:
        return float("inf")
    return check.max_error / check.allowed_error if check.allowed_error else check.max_error


def launches(verdict: Verdict) -> int | None:
    return sum(kernel.launches for kernel in verdict.kernels) if verdict.kernels else None


def error(value: float | None) -> str:
    return NONE if value is None else f"{value:.2e}"


def count(value: int | None) -> str:
    return NONE if value is None else str(value)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def percent(value: float | None, digits: int | None = 1) -> str:
    """A number that is in percent already; without `digits` as it was published."""
    if value is None:
        return NONE
    return f"{value:.{digits}f}" if digits is not None else f"{value:g}"


def p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def milliseconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}x"


def interval(speedup: Speedup | None) -> str:
    if speedup is None:
        return NONE
    return f"{speedup.ratio:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})"


def size(value: int | None) -> str:
    if value is None:
        return NONE
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= bytes_:
            return f"{value / bytes_:.1f} {unit}"
    return f"{value} B"


def finite(value: Any) -> Any:
    """The same JSON value with None for infinities and NaN, which JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
