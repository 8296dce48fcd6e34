"""What a forward does with torch: operators counted, fresh memory poisoned, and fences around it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from autotriton.judge.watching import POISONS, Ranges, Watch, poisoned

pytestmark = pytest.mark.interp

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64])
@pytest.mark.parametrize("poison", [0, 1])
def test_fresh_memory_holds_poison(dtype: torch.dtype, poison: int) -> None:
    with Watch(poison):
        made = [torch.empty(3, 4, dtype=dtype), torch.empty_like(torch.zeros(3, 4, dtype=dtype))]
        made.append(torch.zeros(1, dtype=dtype).new_empty(3, 4))
        made.append(torch.empty_strided((3, 4), (1, 3), dtype=dtype))
    want = poisoned(torch.zeros(1, dtype=dtype), poison)
    for tensor in made:
        assert tensor.dtype is dtype
        assert torch.equal(tensor.isnan(), want.isnan().expand(3, 4))
        assert bool(((tensor == want) | tensor.isnan()).all())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_the_two_poisons_differ_and_are_no_usual_value(dtype: torch.dtype) -> None:
    one, two = (poisoned(torch.zeros(1, dtype=dtype), poison) for poison in (0, 1))
    assert not torch.equal(one, two)
    if dtype is not torch.bool:
        assert all(value.item() not in (0, 1, -1) for value in (one, two))
    if dtype.is_floating_point:
        assert one.isnan().all()
        assert two.item() == pytest.approx(POISONS[1], rel=1e-2)


def test_written_allocations_keep_their_content() -> None:
    with Watch(0):
        zeros, ones, full = torch.zeros(2, 3), torch.ones_like(torch.empty(4)), torch.full((5,), 7)
        transposed = torch.empty(3, 2).t().new_zeros(2, 3)
    assert zeros.eq(0).all()
    assert ones.eq(1).all()
    assert full.eq(7).all()
    assert transposed.eq(0).all()
    assert full.dtype is torch.int64


@pytest.mark.parametrize("index", [-1, 12, -1000, 1000])
@pytest.mark.parametrize("make", ["empty", "zeros"])
def test_writing_before_or_after_an_allocation_breaks_its_fence(make: str, index: int) -> None:
    watch = Watch(1)
    with watch:
        tensor, other = getattr(torch, make)(3, 4), torch.empty(5)
    tensor.fill_(1.0)
    other.fill_(2.0)
    assert watch.broken_fences() == 0
    tensor.as_strided((1,), (1,), tensor.storage_offset() + index).fill_(3.0)
    assert watch.broken_fences() == 1


def test_a_fence_of_nan_is_compared_by_its_bytes() -> None:
    watch = Watch(0)
    with watch:
        tensor = torch.empty(4)
    assert watch.broken_fences() == 0
    tensor.as_strided((1,), (1,), tensor.storage_offset() + 4).view(torch.int32).fill_(0x7FC00001)  # another NaN
    assert watch.broken_fences() == 1


def test_empty_and_strided_allocations_keep_shape_and_strides() -> None:
    with Watch(0):
        none, channels_last = torch.empty(0, 3), torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
        holes = torch.empty_strided((2, 2), (4, 1))
    assert none.shape == (0, 3)
    assert channels_last.stride() == torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last).stride()
    assert channels_last.isnan().all()
    assert holes.stride() == (4, 1)
    assert holes.isnan().all()


def test_operators_are_counted_with_what_they_write() -> None:
    watch = Watch(0)
    x = torch.ones(8)
    with watch:
        y = x.to(torch.float64).clone()
        _ = y + y
    assert watch.operators["aten::_to_copy"] == 1
    assert watch.operators["aten::add.Tensor"] == 1
    assert watch.moved_bytes["aten::clone"] == 64
    assert watch.cost == (0, 0)


def test_cost_counts_compute_only_when_asked() -> None:
    watch = Watch(0, count_cost=True)
    x = torch.ones(4, 8)
    with watch:
        _ = x.clone() @ x.t()
    assert watch.cost == (2 * 4 * 8 * 4, (32 + 32 + 16) * 4)


def test_known_ranges_hold_every_fenced_allocation() -> None:
    watch = Watch(0)
    with watch:
        tensor = torch.empty(10)
    assert watch.ranges.find(tensor.data_ptr() + 39) == (tensor.data_ptr(), tensor.data_ptr() + 40)
    assert watch.ranges.find(tensor.data_ptr() + 40) is None


def test_watching_does_not_import_dynamo() -> None:
    code = """
import sys, torch
from autotriton.judge.watching import Watch
with Watch(0):
    torch.empty(4).zero_()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- ranges ---------------------------------------------------------------------------------------------------------


def test_ranges_find_the_allocation_of_an_address() -> None:
    ranges = Ranges()
    ranges.extend([(100, 10), (50, 20), (200, 1)])
    assert ranges.find(100) == (100, 110)
    assert ranges.find(109) == (100, 110)
    assert ranges.find(110) is None
    assert ranges.find(69) == (50, 70)
    assert ranges.find(49) is None
    assert ranges.find(200) == (200, 201)


def test_a_new_range_replaces_what_it_lies_over() -> None:
    ranges = Ranges()
    ranges.extend([(0, 10), (10, 10), (20, 10), (40, 10)])
    ranges.add(15, 10)
    assert ranges.find(5) == (0, 10)
    assert ranges.find(12) is None
    assert ranges.find(15) == (15, 25)
    assert ranges.find(27) is None
    assert ranges.find(45) == (40, 50)


def test_an_empty_range_changes_nothing() -> None:
    ranges = Ranges()
    ranges.add(0, 10)
    ranges.add(5, 0)
    assert ranges.find(7) == (0, 10)
