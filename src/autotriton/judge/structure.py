"""A call's arguments as plain data: tensors become numbered places, so that the rest can travel by pickle.

Pickle goes from the trusted side to the candidate's process only, never back.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Place:
    """Stands for tensor number `index`."""

    index: int


def pack(value: Any, numbers: dict[int, int]) -> str:
    """The value with its tensors replaced by places, as text; `numbers` maps a tensor's `id` to its number."""
    return pack_plain(_map(value, torch.Tensor, lambda tensor: Place(numbers[id(tensor)])))


def pack_plain(value: Any) -> str:
    """A value whose tensors travel inside it."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str, tensors: dict[int, torch.Tensor]) -> Any:
    """Undo `pack`, with other tensors in the places."""
    return _map(pickle.loads(base64.b64decode(text)), Place, lambda place: tensors[place.index])


def _map(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(item, kind, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map(item, kind, change) for item in value]
    if type(value) is tuple:
        return tuple(_map(item, kind, change) for item in value)
    return value
