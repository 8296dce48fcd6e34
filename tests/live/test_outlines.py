"""Nested values as tensors and an outline."""

from __future__ import annotations

import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch

from autotriton.live.outlines import Outline, Unknown, Unlike

pytestmark = pytest.mark.interp

Point = namedtuple("Point", ["x", "y"])
A, B, C = torch.zeros(1), torch.ones(2), torch.ones(3)


@dataclass
class Result:
    value: torch.Tensor
    note: str | None = None


class ModelOutput(OrderedDict):
    """A dict of a kind of its own."""


@pytest.mark.parametrize(
    ("value", "tensors"),
    [
        (A, [A]),
        ((A, None, 3), [A]),
        ([A, [B, (C,)]], [A, B, C]),
        ({"b": B, "a": {"c": (A,)}}, [B, A]),
        (Point(A, Point(B, 2.5)), [A, B]),
        (Result(A, "text"), [A]),
        (ModelOutput(logits=A, states=(B, C)), [A, B, C]),
    ],
)
def test_value_comes_back(value, tensors):
    outline, found = Outline.of(value)
    assert [id(t) for t in found] == [id(t) for t in tensors]
    again = pickle.loads(pickle.dumps(outline)).rebuild(found)
    assert type(again) is type(value)
    assert str(again) == str(value)
    assert [id(t) for t in outline.tensors_of(value)] == [id(t) for t in tensors]


def test_paths_say_where_tensors_are():
    assert Outline.of({"x": (A, B), "y": Point(3, C)})[0].paths == (("x", "0"), ("x", "1"), ("y", "1"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"x": A, "n": 4}, "n is 4 where 3 was"),
        ({"x": A, "n": 3.0}, "n is 3.0 where 3 was"),
        ({"x": 1.0, "n": 3}, "x is a float where a tensor was"),
        ({"x": A}, "the call has other contents"),
        ({"n": 3, "x": A}, "the call has other contents"),
        ({"x": A, "n": B}, "n is a Tensor where 3 was"),
    ],
)
def test_other_values_are_told_apart(value, said):
    outline, _ = Outline.of({"x": A, "n": 3})
    with pytest.raises(Unlike, match=said):
        outline.tensors_of(value)


def test_unknown_kinds_are_named_with_their_place():
    with pytest.raises(Unknown, match=r"a\.1 is a object"):
        Outline.of({"a": [A, object()]})
