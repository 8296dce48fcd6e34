"""Flags become source text, and only what was parsed gets into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotriton.errors import UsageError
from autotriton.tasks.inputs import generate, parse_init, parse_input


@pytest.mark.parametrize(
    ("flag", "source"),
    [
        ("8x1024:float32", "torch.randn((8, 1024,), dtype=torch.float32)"),
        ("8x16", "torch.randn((8, 16,), dtype=torch.float32)"),
        ("4:bf16@uniform", "torch.rand((4,), dtype=torch.bfloat16)"),
        (":fp64", "torch.randn((), dtype=torch.float64)"),
        ("8:int64<1000", "torch.randint(0, 1000, (8,), dtype=torch.int64)"),
        ("8:i32", "torch.randint(0, 16, (8,), dtype=torch.int32)"),
        ("8x8:bool", "(torch.rand((8, 8,)) < 0.5)"),
        ("2:fp8", "torch.randn((2,)).to(torch.float8_e4m3fn)"),
        ("3", "3"),
        ("-2", "-2"),
        ("0.5", "0.5"),
        ("1e-5", "1e-05"),
        ("true", "True"),
        ("None", "None"),
        ("'sum'", "'sum'"),
        ("(2, 3)", "(2, 3)"),
    ],
)
def test_flag_becomes_source(flag, source):
    assert parse_input(flag).source == source


def test_keyword_argument_keeps_its_name():
    argument = parse_input("mask=8x16:bool")
    assert argument.name == "mask"
    assert argument.source == "(torch.rand((8, 16,)) < 0.5)"


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("8x16:float31", "unknown dtype"),
        ("8x16:float32<5", "bound"),
        ("8:int8<1000", "from 1 to 128"),
        ("8:int64<0", "from 1 to"),
        ("8:int64@uniform", "float tensors"),
        ("8:float32@cauchy", "unknown distribution"),
        ("relu", "neither"),
        ("", "neither"),
        ("x=", "neither"),
        ("8x-1:float32", "neither"),
        ("1e999", "neither"),
        ("class=3", "keyword"),
        ("__import__('os').system('true')", "neither"),
        ("8:float32); import os #", "neither"),
    ],
)
def test_bad_flag_is_a_usage_error_that_says_why(flag, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_input(flag)


def test_init_is_a_literal_and_a_bare_word_is_not():
    assert parse_init("64").source == "64"
    assert parse_init("bias=false").source == "False"
    with pytest.raises(UsageError, match="literal"):
        parse_init("relu")
    with pytest.raises(UsageError, match="literal"):
        parse_init("8x16:float32")


def returned(flags):
    scope: dict = {}
    exec(generate("get", [parse_input(flag) for flag in flags]), scope)
    return scope["get"]()


def test_shape_of_the_result_follows_the_kinds_of_arguments():
    assert returned([]) == []
    assert returned(["1", "2"]) == [1, 2]
    assert returned(["a=1"]) == {"a": 1}
    assert returned(["1", "a=2"]) == ([1], {"a": 2})


def test_name_given_twice_is_a_usage_error():
    with pytest.raises(UsageError, match="twice"):
        generate("get", [parse_input("a=1"), parse_input("a=2")])


@given(st.text(max_size=30))
def test_no_text_reaches_the_source_unparsed(text):
    try:
        argument = parse_input(text)
    except UsageError:
        return
    compile(generate("get", [argument]), "<generated>", "exec")
    assert argument.source.startswith(("torch.", "(torch.")) or eval(argument.source, {"__builtins__": {}}) is not ...


@pytest.mark.interp
def test_every_dtype_draws():
    import torch

    from autotriton.tasks.inputs import _ALIASES

    for name in _ALIASES:
        (tensor,) = returned([f"2x3:{name}"])
        assert tensor.dtype == getattr(torch, name)
        assert tensor.shape == (2, 3)
