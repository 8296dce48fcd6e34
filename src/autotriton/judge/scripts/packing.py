"""One recorded call as plain data: its tensors as pieces of numbered storages, everything else by pickle or by name.

Pickle goes from the trusted side to the candidate's process only. Whole storages travel, so that views of one tensor
stay views of one tensor, and a kernel that reaches from one view into the next finds the same memory there.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from autotriton.judge import arena


@dataclass(frozen=True)
class Place:
    """Stands for tensor number `index`."""

    index: int


@dataclass(frozen=True)
class Handle:
    """Stands for the object that call number `index` returned."""

    index: int


@dataclass(frozen=True)
class Named:
    """Stands for a top-level name of the program: a kernel or function handed over as an argument."""

    name: str


@dataclass(frozen=True)
class Piece:
    """One tensor: which storage, from which byte on, and how it is read."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    requires_grad: bool = False
    is_parameter: bool = False
    on_host: bool = False
    """It lies in host memory, whatever the device is."""


@dataclass
class Pieces:
    """Tensors with the memory under them, copied when they were added; `tensors` makes them anew."""

    storages: list[torch.Tensor] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    _known: dict[int, int] = field(default_factory=dict)
    _kept: list[torch.Tensor] = field(default_factory=list)

    def add(self, tensor: torch.Tensor) -> int:
        """The tensor's number. Storages are told apart by address, so the originals are kept until `close`."""
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in self._known or memory.nbytes() == 0:
            copied = _bytes_of(tensor)
            self._known[memory.data_ptr()] = len(self.storages)
            self.storages.append(copied)
        self._kept.append(tensor)
        self.pieces.append(
            Piece(
                self._known[memory.data_ptr()],
                int(tensor.storage_offset()) * tensor.element_size(),
                tuple(tensor.shape),
                tuple(tensor.stride()),
                str(tensor.dtype).split(".")[1],
                tensor.requires_grad,
                isinstance(tensor, torch.nn.Parameter),
                tensor.device.type == "cpu",
            )
        )
        return len(self.pieces) - 1

    def close(self) -> None:
        self._known.clear()
        self._kept.clear()

    def tensors(self, change: Callable[[torch.Tensor], torch.Tensor] | None = None) -> list[torch.Tensor]:
        """Fresh tensors over fresh memory; with `change`, their contents changed."""
        memory = [storage.clone() for storage in self.storages]
        made = [read(memory[piece.storage], piece) for piece in self.pieces]
        for tensor in made if change is not None else []:
            if not _repeats(tensor):
                tensor.copy_(change(tensor))  # type: ignore[misc]
        return made

    def with_contents(self, tensors: list[torch.Tensor]) -> Pieces:
        """The same pieces over the memory of tensors made by `tensors`."""
        by_number = {piece.storage: tensor for piece, tensor in zip(self.pieces, tensors, strict=True)}
        flat = [_bytes_of(by_number[number]) for number in range(len(self.storages))]
        return Pieces(flat, list(self.pieces))

    def slots(self, storage_slots: list[arena.Slot]) -> list[arena.Slot]:
        """Where each tensor lies when the storages lie in these slots of an arena."""
        found = []
        for piece in self.pieces:
            size = getattr(torch, piece.dtype).itemsize
            span = arena.span_bytes(piece.shape, piece.stride, size)
            start = storage_slots[piece.storage].offset + piece.offset
            found.append(arena.Slot(start, span, piece.shape, piece.stride, piece.dtype))
        return found


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of all the memory the tensor is a piece of."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.untyped_storage()).clone()


def read(memory: torch.Tensor, piece: Piece, start: int = 0) -> torch.Tensor:
    """The tensor, where its storage's bytes begin at `start` of the memory."""
    dtype = getattr(torch, piece.dtype)
    tensor = torch.empty(0, dtype=dtype, device=memory.device)
    return tensor.set_(memory.untyped_storage(), (start + piece.offset) // dtype.itemsize, piece.shape, piece.stride)


def _repeats(tensor: torch.Tensor) -> bool:
    """Some elements share memory (expanded dimensions): it cannot be written as a whole."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def pack(value: Any) -> str:
    """The value as text. Raises whatever pickle raises for values that cannot travel."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to everything in it that is no container."""
    if isinstance(value, dict):
        return {key: replaced(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, change) for item in value]
    if type(value) is tuple:
        return tuple(replaced(item, change) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(item, change) for item in value))
    return change(value)


def bound(path: str, kind: str, resolve: Callable[[str], Any], on: Any) -> Callable[..., Any]:
    """The callable a recorded call goes to."""
    if path.startswith("."):
        method: Callable[..., Any] = getattr(on, path[1:])
        return method
    target = resolve(path)
    if kind == "launch":
        return lambda grid, *args, **kwargs: target[grid](*args, **kwargs)
    return target  # type: ignore[no-any-return]
