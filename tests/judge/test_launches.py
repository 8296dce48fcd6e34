"""A launch survives the trip through JSON: types, constants, alignment, options."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from autotriton.judge.launches import CannotRebuild, decode, describe, launch_key, options_of, rebuild  # noqa: E402

pytestmark = pytest.mark.interp

Pair = namedtuple("Pair", ["first", "second"])


@triton.jit
def helper(x):
    return x + 1


def one(value: object, *, constexpr: bool = False) -> dict[str, Any]:
    """A launch with one argument `a`, after a trip through JSON."""
    launch = describe("kernel", ["a"], ["a"] if constexpr else [], {"a": value}, {})
    return json.loads(json.dumps(launch, allow_nan=False))


def param(name: str = "a", **changes: Any) -> SimpleNamespace:
    plain = {
        "is_constexpr": False,
        "is_const": False,
        "annotation_type": "",
        "do_not_specialize": False,
        "do_not_specialize_on_alignment": False,
        "has_default": False,
    }
    return SimpleNamespace(name=name, **(plain | changes))


def back(launch: dict[str, Any], **changes: Any) -> Any:
    return rebuild(SimpleNamespace(params=[param(**changes)]), launch, resolve=lambda name: f"function {name}")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", "*fp32"),
        ("float16", "*fp16"),
        ("bfloat16", "*bf16"),
        ("float64", "*fp64"),
        ("bool", "*u1"),
        ("uint8", "*u8"),
        ("int64", "*i64"),
        ("float8_e4m3fn", "*fp8e4nv"),
        ("float8_e5m2", "*fp8e5"),
    ],
)
def test_tensor_is_a_pointer_to_its_dtype(dtype: str, expected: str) -> None:
    launch = one(torch.zeros(64, dtype=getattr(torch, dtype)))
    assert launch["signature"] == {"a": expected}
    assert launch["attrs"] == {"a": "DS"}


def test_tensor_off_by_one_element_is_not_aligned() -> None:
    assert one(torch.zeros(64)[1:])["attrs"] == {"a": "S"}


def test_parameter_and_reinterpreted_tensor_are_pointers() -> None:
    assert one(torch.nn.Parameter(torch.zeros(4)))["signature"] == {"a": "*fp32"}
    wrapped = triton.reinterpret(torch.zeros(4, dtype=torch.int8), tl.float8e5)
    assert one(wrapped)["signature"] == {"a": "*fp8e5"}


@pytest.mark.parametrize(
    ("value", "type_", "attr"),
    [
        (3, "i32", None),
        (16, "i32", "D"),
        (1, "i32", "1"),
        (0, "i32", "D"),
        (2**40, "i64", "D"),
        (2**63, "u64", "D"),
        (1.5, "fp32", None),
        (True, "u1", None),
    ],
)
def test_scalar_has_the_type_and_the_specialisation_of_its_value(value: object, type_: str, attr: str | None) -> None:
    launch = one(value)
    assert (launch["signature"]["a"], launch["attrs"].get("a")) == (type_, attr)


def test_value_of_a_runtime_scalar_is_not_recorded() -> None:
    assert launch_key(one(48)) == launch_key(one(64))
    assert launch_key(one(48)) != launch_key(one(49))
    assert one(48)["constants"] == {}


@pytest.mark.parametrize(
    "value", [64, 1.5, True, "relu", None, math.inf, (1, (2, "x")), Pair(1, 2.5), -math.inf], ids=repr
)
def test_constant_comes_back_equal(value: object) -> None:
    launch = one(value, constexpr=True)
    assert launch["signature"] == {"a": "constexpr"}
    assert back(launch, is_constexpr=True).constexprs == {(0,): value}


def test_nan_constant_comes_back() -> None:
    assert math.isnan(back(one(math.nan, constexpr=True)).constexprs[(0,)])


def test_triton_and_torch_dtypes_come_back() -> None:
    assert back(one(tl.float16, constexpr=True)).constexprs == {(0,): tl.float16}
    assert back(one(torch.bfloat16, constexpr=True)).constexprs == {(0,): torch.bfloat16}


def test_wrapped_constexpr_is_its_value() -> None:
    assert back(one(tl.constexpr(7))).constexprs == {(0,): 7}


def test_jit_function_travels_by_name() -> None:
    assert one(helper, constexpr=True)["constants"] == {"a": {"jit": "helper"}}
    assert back(one(helper)).constexprs == {(0,): "function helper"}


def test_constant_of_another_kind_cannot_be_rebuilt() -> None:
    with pytest.raises(CannotRebuild, match="object"):
        back(one(object(), constexpr=True), is_constexpr=True)


def test_argument_that_triton_refuses_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="complex64"):
        back(one(torch.zeros(4, dtype=torch.complex64)))
    with pytest.raises(TypeError, match="str"):
        back(one("text"))


def test_none_is_a_constant() -> None:
    source = back(one(None))
    assert (source.signature, source.constexprs) == ({"a": "constexpr"}, {(0,): None})


def test_tuple_is_described_item_by_item() -> None:
    source = back(one((torch.zeros(16), 1, None, 3)))
    assert source.signature == {"a": ("*fp32", "constexpr", "constexpr", "i32")}
    assert source.constexprs == {(0, 1): 1, (0, 2): None}
    assert source.attrs == {(0, 0): "DS"}


def test_named_tuple_keeps_its_field_names() -> None:
    signature = back(one(Pair(torch.zeros(16), 2.0))).signature["a"]
    assert (signature.first, signature.second) == ("*fp32", "fp32")


def test_tensor_descriptor_names_its_block() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    launch = one(TensorDescriptor.from_tensor(torch.zeros(64, 64), [16, 32]))
    assert launch["signature"]["a"] == "tensordesc<fp32[16, 32]>"


def test_integer_equal_to_one_becomes_a_constant_unless_told_not_to() -> None:
    assert back(one(1)).signature == {"a": "constexpr"}
    unspecialised = back(one(1), do_not_specialize=True)
    assert (unspecialised.signature, unspecialised.constexprs) == ({"a": "i32"}, {})


def test_do_not_specialize_drops_alignment() -> None:
    assert back(one(16), do_not_specialize=True).attrs == {}
    assert back(one(16), do_not_specialize_on_alignment=True).attrs == {}
    assert back(one(16)).attrs == {(0,): "D"}


def test_annotated_type_wins_over_the_value() -> None:
    source = back(one(1), annotation_type="i64")
    assert (source.signature, source.constexprs) == ({"a": "i64"}, {})


def test_default_fills_an_argument_the_launch_left_out() -> None:
    launch = describe("kernel", ["a"], [], {}, {})
    assert back(launch, is_constexpr=True, has_default=True, default=8).constexprs == {(0,): 8}
    with pytest.raises(CannotRebuild, match="a was not recorded"):
        back(launch)


def test_options_left_out_are_left_to_the_backend() -> None:
    launch = describe("kernel", [], [], {}, {"num_warps": 8, "grid": (1,), "warmup": False, "maxnreg": 64})
    assert (launch["num_warps"], launch["num_stages"], launch["num_ctas"]) == (8, None, None)
    assert options_of(json.loads(json.dumps(launch))) == {"num_warps": 8, "maxnreg": 64}


def test_key_depends_on_options_and_constants_but_not_on_order() -> None:
    first = describe("k", ["a", "B"], ["B"], {"a": 3, "B": 64}, {"num_warps": 4})
    again = dict(reversed(first.items()))
    assert launch_key(first) == launch_key(again)
    assert launch_key(first) != launch_key({**first, "num_warps": 8})
    assert launch_key(first) != launch_key({**first, "constants": {"B": 128}})


def test_numpy_constants_become_plain_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert one(numpy.int64(5), constexpr=True)["constants"] == {"a": 5}
    assert decode(one(numpy.float32(0.5), constexpr=True)["constants"]["a"], lambda name: name) == 0.5
