"""What a call gave back, in a form both sides can describe alike: tensors, plain values, and nothing else.

Used by the trusted process for the gold's results and by the candidate's process for its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

OPAQUE = "an object"


def portable(value: Any) -> Any:
    """Containers as dicts and tuples, arrays as tensors, names of dtypes and devices; other objects as `OPAQUE`."""
    if isinstance(value, torch.Tensor):
        return widened(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(portable(item) for item in value)
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, torch.device):
        return value.type
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: portable(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if type(value).__module__ == "numpy":
        return _array(value)
    return OPAQUE


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Eight-bit floats as fp32: torch compares none of them."""
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Eight-bit floats as the bytes they are."""
    return tensor.view(torch.uint8) if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def _array(value: Any) -> Any:
    try:
        tensor = torch.as_tensor(value)
    except TypeError:
        return OPAQUE
    return tensor if tensor.dim() else tensor.item()


def gradients(result: Any, leaves: list[torch.Tensor], grads: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """What flows back to the leaves that want it when these gradients come in at the result's tensors."""
    found: list[torch.Tensor] = []
    _collect(result, found)
    if len(found) != len(grads):
        raise ValueError(f"gradients flow through {len(found)} of its results where {len(grads)} are expected")
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return list(torch.autograd.grad(found, wanted, grads, allow_unused=True))


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found += [value] if value.requires_grad else []
    elif isinstance(value, Mapping):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
