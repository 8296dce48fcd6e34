"""Tensors as source: expressions that draw tensors like the user's, or write their exact values down.

Must stay true: a drawn tensor has the example's dtype, shape and strides, and integers stay in the example's range, so
that indices remain valid. What is drawn is as general as that allows: a kernel that is right for it was not fitted to
one example.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.live import layouts

_SAMPLE = 1 << 20
"""Elements looked at to learn a distribution."""
_FEW = 8
"""A floating tensor of at most this many different values is a mask, or classes."""
_LITERAL = 16
_TABLE_BYTES = 1 << 20
"""Compressed bytes a source may carry for one tensor."""


@dataclass(frozen=True)
class Layout:
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def flat(self) -> bool:
        """Its elements are drawn in one row and then looked at with its strides."""
        return not layouts.is_contiguous(self.shape, self.stride)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (layouts.span(self.shape, self.stride),) if self.flat else self.shape

    def view(self, expression: str) -> str:
        return f"({expression}).as_strided({self.shape}, {self.stride})" if self.flat else expression


def layout_of(tensor: Tensor, leading: int | None = None) -> Layout:
    """The layout of a tensor, or the one it has with another leading size."""
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    if leading is None or leading == shape[0]:
        return Layout(shape, stride)
    new = layouts.resized(shape, stride, leading)
    if new is None:
        raise TaskError(f"a tensor of strides {stride} has no layout of the same kind with a leading size of {leading}")
    return Layout((leading, *shape[1:]), new)


def drawn(tensor: Tensor, layout: Layout | None = None) -> str:
    """An expression for random tensors like this one."""
    layout = layout or layout_of(tensor)
    values, dtype = _sample(tensor), tensor.dtype
    if dtype.is_floating_point:
        return layout.view(_drawn_floats(values, layout.sizes, dtype))
    if dtype is torch.bool:
        share = values.float().mean().item() if values.numel() else 0.5
        return layout.view(f"torch.rand({_sizes(layout.sizes)}) < {_number(min(max(share, 0.1), 0.9))}")
    if dtype.is_complex:
        return layout.view(f"torch.randn({_sizes(layout.sizes)}, dtype={dtype})")
    if _increasing(tensor):  # offsets and positions: their order is what they mean
        return exact(tensor)
    low, high = (int(values.min()), int(values.max())) if values.numel() else (0, 0)
    low = 0 if (low, high) == (1, 1) and values.numel() > 1 else low  # a mask that lets everything through
    return layout.view(f"torch.randint({low}, {high + 1}, {layout.sizes}, dtype={dtype})")


def exact(tensor: Tensor) -> str:
    """An expression for this very tensor."""
    layout = layout_of(tensor)
    detached = tensor.detach()
    flat = torch.as_strided(detached, layout.sizes, (1,)) if layout.flat else detached
    raw = flat.reshape(-1).contiguous().cpu().view(torch.uint8).numpy().tobytes()
    text = base64.b85encode(zlib.compress(raw, 9)).decode()
    if len(text) > _TABLE_BYTES:
        raise TaskError(
            f"a tensor of shape {layout.shape} has values that cannot be drawn at random, and too many to write down",
            hint="pass it as an input, or hold it in a form that can be recomputed",
        )
    if not raw:
        return layout.view(f"torch.empty({_sizes(layout.sizes)}, dtype={tensor.dtype})")
    return layout.view(f"table({layout.sizes}, {tensor.dtype}, {text!r})")


def parameter(tensor: Tensor) -> str:
    """An expression for a parameter: of about the scale of the instance's, but not its values."""
    layout, dtype, values = layout_of(tensor), tensor.dtype, _sample(tensor)
    constant = _constant(values)
    if constant is not None:
        return layout.view(_filled(layout.sizes, constant, dtype))
    if not dtype.is_floating_point:
        low, high = int(values.min()), int(values.max())
        return layout.view(f"torch.randint({low}, {high + 1}, {layout.sizes}, dtype={dtype})")
    scale, middle = _number(values.std().item()), _number(values.mean().item())
    plus = f" + {middle}" if abs(float(middle)) > 0.1 * float(scale) else ""
    return layout.view(_typed(f"torch.randn({_sizes(layout.sizes)}) * {scale}{plus}", dtype))


def buffer(tensor: Tensor) -> str | None:
    """An expression for a buffer or constant; None where only its exact values will do and they need a table."""
    layout, dtype, values = layout_of(tensor), tensor.dtype, _sample(tensor)
    constant = _constant(values)
    if constant is not None and values.numel() == tensor.numel():
        return layout.view(_filled(layout.sizes, constant, dtype))
    if not layout.flat and tensor.numel() <= _LITERAL and not dtype.is_complex and bool(torch.isfinite(values).all()):
        return f"torch.tensor({tensor.detach().cpu().tolist()!r}, dtype={dtype})"
    if dtype.is_floating_point and len(torch.unique(values)) > _FEW and bool(torch.isfinite(values).all()):
        return layout.view(_drawn_floats(values, layout.sizes, dtype))
    return None


def _sample(tensor: Tensor) -> Tensor:
    """Some of its values on the CPU; floats as doubles."""
    flat = tensor.detach().reshape(-1)
    if flat.numel() > _SAMPLE:
        flat = flat[:: flat.numel() // _SAMPLE + 1]
    flat = flat.cpu()
    return flat.to(torch.float64) if flat.dtype.is_floating_point else flat


def _drawn_floats(values: Tensor, sizes: tuple[int, ...], dtype: torch.dtype) -> str:
    distinct = torch.unique(values)
    if values.numel() > 2 * _FEW and 1 < len(distinct) <= _FEW:
        return f"torch.tensor({_floats(distinct)}, dtype={dtype})[torch.randint(0, {len(distinct)}, {sizes})]"
    finite = values[torch.isfinite(values)]
    if len(torch.unique(finite)) < 2:  # zeros or ones: a stand-in for real data
        return _typed(f"torch.randn({_sizes(sizes)})", dtype)
    low, high = finite.min().item(), finite.max().item()
    if low >= 0:
        return _typed(f"torch.rand({_sizes(sizes)}) * {_number(high - low)} + {_number(low)}", dtype)
    scale, middle = finite.std().item(), finite.mean().item()
    if abs(scale - 1) < 0.2 and abs(middle) < 0.2:
        return _typed(f"torch.randn({_sizes(sizes)})", dtype)
    return _typed(f"torch.randn({_sizes(sizes)}) * {_number(scale)} + {_number(middle)}", dtype)


def _typed(expression: str, dtype: torch.dtype) -> str:
    return expression if dtype is torch.float32 else f"({expression}).to({dtype})"


def _filled(shape: tuple[int, ...], value: Any, dtype: torch.dtype) -> str:
    if value in (0, 1) and not isinstance(value, bool):
        return f"torch.{'ones' if value else 'zeros'}({shape}, dtype={dtype})"
    if isinstance(value, float) and not abs(value) < float("inf"):
        return f"torch.full({shape}, float({str(value)!r}), dtype={dtype})"
    return f"torch.full({shape}, {value!r}, dtype={dtype})"


def _constant(values: Tensor) -> Any:
    if not values.numel():
        return 0
    first = values[0]
    return first.item() if bool((values == first).all()) else None


def _increasing(tensor: Tensor) -> bool:
    if tensor.dim() != 1 or tensor.numel() < 3:
        return False
    return bool((tensor[1:] > tensor[:-1]).all())


def _floats(values: Tensor) -> str:
    texts = [f"float({str(v)!r})" if not abs(v) < float("inf") else repr(v) for v in values.tolist()]
    return f"[{', '.join(texts)}]"


def _sizes(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes)) if sizes else "()"


def _number(value: float) -> str:
    return repr(float(f"{value:.4g}"))
