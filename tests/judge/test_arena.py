"""Arenas: tensors lie where the slots say, guards between them, and a bad slot is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autotriton.judge import arena  # noqa: E402
from autotriton.judge.arena import ALIGN, GUARD_BYTES, GUARD_PATTERN, HostArena, Slot  # noqa: E402

pytestmark = pytest.mark.interp


@pytest.fixture
def memory() -> Iterator[HostArena]:
    made = HostArena.create(64 << 10)
    made.bytes.fill_(GUARD_PATTERN)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("shape", "stride", "itemsize", "expected"),
    [
        ((), (), 4, 4),
        ((3,), (1,), 4, 12),
        ((2, 3), (3, 1), 2, 12),
        ((2, 3), (1, 2), 2, 12),
        ((2, 3), (8, 1), 4, (8 + 2 + 1) * 4),
        ((5, 3), (0, 1), 4, 12),
        ((0, 7), (7, 1), 4, 0),
    ],
)
def test_span_is_worked_out_from_shape_and_stride(
    shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int, expected: int
) -> None:
    assert arena.span_bytes(shape, stride, itemsize) == expected


def test_slots_are_aligned_and_apart_by_a_guard() -> None:
    tensors = [
        torch.zeros(3),
        torch.zeros(5, 7, dtype=torch.float16),
        torch.zeros(0),
        torch.zeros((), dtype=torch.int64),
    ]
    slots, size = arena.lay_out(tensors)
    assert [slot.offset for slot in slots] == [4096, 4096 + 512 + 4096, 8704 + 512 + 4096, 13312 + 4096]
    assert [slot.span for slot in slots] == [12, 70, 0, 8]
    assert size == 17408 + 512 + 4096
    assert all(slot.offset % ALIGN == 0 for slot in slots)


def test_guards_are_every_byte_no_tensor_owns() -> None:
    slots, size = arena.lay_out([torch.zeros(3), torch.zeros(4)])
    ranges = arena.guards(slots, size)
    assert ranges == [(0, 4096), (4108, 8704), (8720, 13312)]
    assert all(end - start >= GUARD_BYTES for start, end in ranges)
    assert arena.guards([], 100) == [(0, 100)]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).reshape(4, 6),
        torch.arange(24.0).reshape(4, 6).t(),
        torch.arange(24, dtype=torch.int16)[::3],
        torch.arange(3.0).expand(5, 3),
        torch.arange(4.0).reshape(4, 1).expand(4, 6),
        torch.tensor(2.5, dtype=torch.bfloat16),
        torch.tensor([True, False, True]),
        torch.zeros(2, 0, 3),
        torch.arange(48.0).reshape(2, 4, 6)[:, 1:3, ::2],
    ],
    ids=["plain", "transposed", "stepped", "expanded", "expanded columns", "scalar", "bool", "empty", "sliced"],
)
def test_a_stored_tensor_comes_back_with_its_strides_and_its_guards_untouched(memory: HostArena, tensor: Any) -> None:
    before = torch.ones(2)
    slots, size = arena.lay_out([before, tensor, before])
    for slot, one in zip(slots, (before, tensor, before), strict=True):
        arena.store(memory, slot, one)
    seen = arena.view(memory, slots[1])
    assert torch.equal(seen, tensor)
    assert (seen.dtype, seen.shape, seen.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    for start, end in arena.guards(slots, size):
        assert bool((memory.bytes[start:end] == GUARD_PATTERN).all())


def test_a_repeated_dimension_takes_the_room_of_one(memory: HostArena) -> None:
    slots, _ = arena.lay_out([torch.arange(3.0).expand(1000, 3)])
    assert slots[0].span == 12
    arena.store(memory, slots[0], torch.arange(3.0).expand(1000, 3))
    assert arena.view(memory, slots[0])[999].tolist() == [0.0, 1.0, 2.0]


def test_slots_survive_json() -> None:
    slots, _ = arena.lay_out([torch.zeros(4, 6, dtype=torch.bfloat16).t()])
    assert Slot.from_json(slots[0].to_json()) == slots[0]
    assert slots[0].dtype == "bfloat16"


@pytest.mark.parametrize(
    "slot",
    [
        Slot(0, 4, (1,), (1,), "nothing"),
        Slot(0, 4, (1,), (1,), "nn"),
        Slot(0, 4, (1, 1), (1,), "float32"),
        Slot(0, 4, (-1,), (1,), "float32"),
        Slot(64, 4, (2,), (-1,), "float32"),
        Slot(-4, 4, (1,), (1,), "float32"),
        Slot(2, 4, (1,), (1,), "float32"),
        Slot((64 << 10) - 4, 8, (2,), (1,), "float32"),
        Slot(0, 4, (2,), (1 << 40,), "float32"),
        Slot(0, 4, (1 << 62, 1 << 62), (1, 1), "float32"),
        Slot(1 << 70, 4, (1,), (1,), "float32"),
    ],
    ids=[
        "dtype",
        "not a dtype",
        "rank",
        "shape",
        "stride",
        "before",
        "unaligned",
        "past the end",
        "far",
        "huge",
        "offset",
    ],
)
def test_a_bad_slot_is_refused(memory: HostArena, slot: Slot) -> None:
    with pytest.raises(ValueError, match="slot"):
        arena.view(memory, slot)


@pytest.mark.parametrize(
    "data", [[], [0, 4, [1], [1]], [0, 4, None, [1], "float32"], ["x", 4, [1], [1], "float32"], None]
)
def test_slots_that_are_no_slots_are_refused(data: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Slot.from_json(data)


def test_both_sides_see_the_same_bytes(memory: HostArena) -> None:
    other = HostArena.attach(os.dup(memory.descriptor), 64 << 10)
    other.bytes[100] = 7
    assert int(memory.bytes[100]) == 7
    other.close()
    assert int(memory.bytes[100]) == 7


@pytest.mark.parametrize("size", [0, 4096, 1 << 20])
def test_an_arena_is_sealed_against_shrinking_and_growing(memory: HostArena, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(memory.descriptor, size)


def test_the_seals_cannot_be_added_to(memory: HostArena) -> None:
    import fcntl

    with pytest.raises(PermissionError):
        fcntl.fcntl(memory.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_an_arena_smaller_than_announced_is_refused(memory: HostArena) -> None:
    with pytest.raises(ValueError, match="smaller"):
        HostArena.attach(memory.descriptor, (64 << 10) + 1)


def test_an_arena_can_be_made_for_a_device_by_name() -> None:
    made = arena.create(8192, "cpu")
    again = arena.attach(os.dup(made.descriptor), 8192, "cpu", shared_on="cpu")
    assert made.bytes.numel() == again.bytes.numel() == 8192
    again.close()
    made.close()
