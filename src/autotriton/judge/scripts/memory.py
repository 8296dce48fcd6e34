"""Where a call's tensors lie, and what lies around them: the same for the gold and for a candidate.

A gold may read memory it was not given. Behind every input, and around every fresh tensor, lie bands wide enough that
this stays our own memory, with a content that differs from run to run in the trusted process: what depends on it is
found out (see `truth.py`). A gold that cannot stand garbage there gets zeros, and so does its candidate.
Must stay true: whoever writes into a band is noticed, whichever content it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autotriton.judge import arena
from autotriton.judge.arena import Slot
from autotriton.judge.scripts.packing import Pieces, read
from autotriton.judge.watching import Watch, poisoned

BAND_BYTES = 1 << 16
"""Between two inputs and around fresh memory: block pointers without a boundary check stray by one block."""
MARGIN_BYTES = 1 << 20
"""Before the first and behind the last input."""
ZEROS = 2
"""The kind of content that is no poison; kinds 0 and 1 are those of `watching.poisoned`."""
_BYTES = (arena.GUARD_PATTERN, 0xFF, 0x00)
"""What bands between inputs hold, by kind. 0xFF: NaN as a float, and as an index one element off."""
_SALTED = (*(512 << step for step in range(12) for _ in range(3)), 4 << 20, 20 << 20)


def band_byte(kind: int) -> int:
    return _BYTES[kind]


def lay_out(storages: Sequence[Tensor], *, apart: bool = False) -> tuple[list[Slot], int]:
    """Slots of flat memories, in their order, and the bytes needed. `apart`: in another order, further apart."""
    slots: dict[int, Slot] = {}
    offset, band = MARGIN_BYTES, BAND_BYTES + (apart * 3 * BAND_BYTES // 2)
    numbers = range(len(storages))
    for number in reversed(numbers) if apart else numbers:
        size = storages[number].numel()
        slots[number] = Slot(offset, size, (size,), (1,), "uint8")
        offset += -(-size // arena.ALIGN) * arena.ALIGN + band
    return [slots[number] for number in numbers], offset + MARGIN_BYTES


def strayed(memory: Tensor, slots: Sequence[Slot], kind: int) -> bool:
    """Something was written between the tensors."""
    ordered = sorted(slots, key=lambda slot: slot.offset)
    gaps = [memory[start:end] for start, end in arena.guards(ordered, memory.numel()) if end > start]
    return any(bool((gap != band_byte(kind)).any()) for gap in gaps)


@dataclass(frozen=True)
class Placed:
    """A call's tensors over memory of ours, for one run."""

    tensors: list[Tensor]
    memory: Tensor
    slots: list[Slot]
    """Of the storages; those in host memory have none."""
    numbers: list[int]
    """Which storage each slot holds."""
    pieces: Pieces
    kind: int

    def strayed(self) -> bool:
        return strayed(self.memory, self.slots, self.kind)

    def ranges(self) -> list[tuple[int, int]]:
        """Addresses and sizes of what was given."""
        base = self.memory.data_ptr()
        return [(base + slot.offset, slot.span) for slot in self.slots]

    def holders(self, tensor: Tensor) -> tuple[int, ...]:
        """The given tensors whose memory this one is a piece of."""
        if not tensor.numel() or tensor.device != self.memory.device:
            return ()
        at, ranges = tensor.data_ptr(), zip(self.numbers, self.ranges(), strict=True)
        found = {number for number, (start, size) in ranges if start <= at < start + size}
        return tuple(n for n, piece in enumerate(self.pieces.pieces) if piece.storage in found)


def place(pieces: Pieces, device: str, kind: int, *, apart: bool = False) -> Placed:
    """Fresh tensors with the pieces' content."""
    numbers = [number for number, storage in enumerate(pieces.storages) if storage.device.type == device]
    slots, size = lay_out([pieces.storages[number] for number in numbers], apart=apart)
    memory = torch.full((size,), band_byte(kind), dtype=torch.uint8, device=device)
    for number, slot in zip(numbers, slots, strict=True):
        memory[slot.offset : slot.offset + slot.span].copy_(pieces.storages[number])
    starts = dict(zip(numbers, slots, strict=True))
    host = {n: storage.clone() for n, storage in enumerate(pieces.storages) if n not in starts}
    tensors = [
        read(memory, piece, starts[piece.storage].offset)
        if piece.storage in starts
        else read(host[piece.storage], piece)
        for piece in pieces.pieces
    ]
    return Placed(tensors, memory, slots, numbers, pieces, kind)


class Fences(Watch):  # type: ignore[no-untyped-call]
    """Poison and wide bands around what is allocated while it is on; `kind` may be `ZEROS`."""

    GUARD_BYTES = BAND_BYTES

    def __init__(self, kind: int, *, count_cost: bool = False) -> None:
        super().__init__(min(kind, 1), count_cost=count_cost)
        self._kind = kind

    def _filled(self, tensor: Tensor) -> Tensor:
        return tensor.fill_(0) if self._kind == ZEROS else poisoned(tensor, self._kind)


def salt(device: str, kind: int) -> None:
    """Fill memory that the allocator is about to hand out again: what lies behind a copy is then of this kind too."""
    if device != "cuda":
        return
    held: list[Any] = [torch.empty(size, dtype=torch.uint8, device=device) for size in _SALTED]
    for one in held:
        one.fill_(band_byte(kind))
