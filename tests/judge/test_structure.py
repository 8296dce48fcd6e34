"""Arguments as plain data: tensors travel apart from the containers that hold them."""

from __future__ import annotations

import pytest
import torch

from autotriton.judge.structure import pack, pack_plain, unpack

pytestmark = pytest.mark.interp


def test_tensors_become_places_and_come_back_as_others() -> None:
    x, y = torch.zeros(2), torch.ones(3)
    numbers = {id(x): 0, id(y): 1}
    text = pack(((x, [y, 3, None]), {"mask": x, "name": "a"}), numbers)
    assert text.isascii()
    new = {0: torch.full((2,), 5.0), 1: torch.full((3,), 6.0)}
    args, kwargs = unpack(text, new)
    assert args[0] is new[0]
    assert args[1][0] is new[1]
    assert args[1][1:] == [3, None]
    assert kwargs["mask"] is new[0]
    assert kwargs["name"] == "a"


def test_containers_keep_their_types() -> None:
    given = ([1, (2, 3)], {"a": (4,), "b": [5]}, True, 1.5)
    assert unpack(pack(given, {}), {}) == given
    assert isinstance(unpack(pack([(1,)], {}), {})[0], tuple)


def test_plain_values_keep_their_tensors_inside() -> None:
    tensor = torch.arange(3)
    args, kwargs = unpack(pack_plain(((tensor, 2), {"k": "v"})), {})
    assert torch.equal(args[0], tensor)
    assert (args[1], kwargs) == (2, {"k": "v"})


def test_a_place_nobody_filled_is_an_error() -> None:
    tensor = torch.zeros(1)
    text = pack([tensor], {id(tensor): 7})
    with pytest.raises(KeyError):
        unpack(text, {0: torch.zeros(1)})
