"""The expression that draws one input: by domain and type, in several spellings."""

from __future__ import annotations

import random

from autotriton.data.synth.builder import Given

_REAL = ("torch.randn({s}{d})",) * 6 + (
    "torch.rand({s}{d}) * 2 - 1",
    "torch.randn({s}{d}) * 0.5",
    "2.0 * torch.randn({s}{d})",
)
_BY_DOMAIN: dict[str, tuple[str, ...]] = {
    "real": _REAL,
    "sym": ("torch.rand({s}{d}) * 2.0 - 1.0", "torch.tanh(torch.randn({s}{d}))"),
    "unit": ("torch.rand({s}{d})",),
    "prob": ("torch.rand({s}{d}) * 0.98 + 0.01", "torch.sigmoid(torch.randn({s}{d}))"),
    "pos": ("torch.rand({s}{d}) + 0.1", "torch.rand({s}{d}) + 0.5", "torch.randn({s}{d}).abs() + 0.1"),
    "nonneg": ("torch.rand({s}{d}) * 3.0", "torch.randn({s}{d}).abs()"),
    "above_one": ("torch.rand({s}{d}) + 1.1",),
    "signs": ("(torch.randint(0, 2, {p}) * 2 - 1).to({t})", "torch.randint(0, 2, {p}).to({t}) * 2 - 1"),
    "binary": ("torch.randint(0, 2, {p}).to({t})", "(torch.rand({s}) > 0.5).to({t})"),
    "distribution": ("torch.softmax(torch.randn({s}{d}), dim=-1)",),
    "sorted": ("torch.sort(torch.randn({s}{d}))[0]", "torch.randn({s}{d}).sort().values"),
}
_BOOLEANS = ("torch.rand({s}) > 0.5", "torch.randint(0, 2, {p}).bool()", "torch.randn({s}) > 0")


def drawn(rng: random.Random, given: Given, shape: str) -> str:
    value = given.value
    if not value.shape:
        return "torch.randn(())" if value.dtype == "float32" else f"torch.randn((), dtype=torch.{value.dtype})"
    place = f"({shape})" if "," in shape else f"({shape},)"
    names = {
        "s": shape,
        "p": place,
        "d": "" if value.dtype == "float32" else f", dtype=torch.{value.dtype}",
        "t": f"torch.{value.dtype}",
    }
    if value.domain == "attend":  # every row may see something, else attention is 0/0
        return f"(torch.rand({shape}) > 0.3) | torch.eye({shape}, dtype=torch.bool)"
    if value.domain == "index":
        dtype = "" if value.dtype == "int64" else f", dtype=torch.{value.dtype}"
        return f"torch.randint(0, {given.high}, {place}{dtype})"
    if value.dtype == "bool":
        return rng.choice(_BOOLEANS).format(**names)
    if value.domain == "shift":
        return f"torch.randint(1, 4, {place}, dtype=torch.{value.dtype})"
    if not value.floating:
        low = 0 if value.dtype == "uint8" else -8
        return f"torch.randint({low}, 9, {place}, dtype=torch.{value.dtype})"
    text = rng.choice(_BY_DOMAIN[value.domain]).format(**names)
    scaled = given.scale != 1.0 and value.domain == "real"
    return f"torch.randn({shape}{names['d']}) * {given.scale:.3g}" if scaled else text
