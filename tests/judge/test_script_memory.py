"""What lies around a call's tensors, and what several runs agree on."""

from __future__ import annotations

import pytest
import torch

from autotriton.judge.scripts.agreement import Seen
from autotriton.judge.scripts.memory import ZEROS, Fences, place
from autotriton.judge.scripts.packing import Pieces

pytestmark = pytest.mark.interp


def pieces(*tensors: torch.Tensor) -> Pieces:
    found = Pieces()
    for tensor in tensors:
        found.add(tensor)
    return found


@pytest.mark.parametrize("kind", [0, 1, ZEROS])
@pytest.mark.parametrize("apart", [False, True])
def test_placed_tensors_hold_their_content_and_writes_beside_them_show(kind: int, apart: bool) -> None:
    one, two = torch.arange(7), torch.rand(3, 4).t()
    placed = place(pieces(one, two, two[1]), "cpu", kind, apart=apart)
    assert torch.equal(placed.tensors[0], one)
    assert torch.equal(placed.tensors[1], two)
    assert placed.tensors[1].stride() == two.stride()
    assert placed.holders(placed.tensors[2]) == (1, 2)
    placed.tensors[0].fill_(9)
    assert not placed.strayed()
    at = placed.slots[0].offset + placed.slots[0].span
    placed.memory[at] = 0x17
    assert placed.strayed()


@pytest.mark.parametrize("kind", [0, 1, ZEROS])
def test_fences_of_every_kind_notice_a_write_past_the_end(kind: int) -> None:
    with Fences(kind) as fences:
        x = torch.empty(5)
        y = torch.zeros(4, dtype=torch.int32)
    assert bool((x == 0).all()) is (kind == ZEROS)
    assert not bool(y.any())
    assert fences.broken_fences() == 0
    x.as_strided((6,), (1,), x.storage_offset()).fill_(3.0)
    assert fences.broken_fences() == 1


def test_elements_that_differ_are_open_and_rounding_is_not_a_difference() -> None:
    seen = Seen("output 0", torch.tensor([1.0, 2.0, 3.0, float("nan")]), 2.0**-24)
    seen.add(torch.tensor([1.0, 2.0 + 2**-22, 4.0, 5.0]))
    answer = seen.answer(None)
    assert isinstance(answer.value, torch.Tensor)
    assert torch.isnan(answer.value).tolist() == [False, False, True, True]
    assert answer.error.max == 2**-22
    assert seen.open_count == 2


def test_open_integers_are_taken_from_the_gold_and_the_others_from_the_candidate() -> None:
    seen = Seen("output 0", torch.tensor([1, 2, 3]), 0.0)
    seen.add(torch.tensor([1, 2, 4]))
    assert seen.determined(torch.tensor([1, 5, 9])).tolist() == [1, 5, 3]
    wide = torch.tensor([1, 5, 9], dtype=torch.int32)
    assert seen.determined(wide) is wide


def test_plain_values_and_shapes_that_differ_are_open_as_a_whole() -> None:
    number = Seen("output 0", 1.5, 0.0)
    number.add(1.5)
    assert number.determined(2.5) == 2.5
    number.add(1.75)
    assert number.determined(2.5) == 1.5
    assert number.determined("text") == "text"
    shape = Seen("output 1", torch.zeros(3), 0.0)
    shape.add(torch.zeros(4))
    assert shape.open_count == 3
