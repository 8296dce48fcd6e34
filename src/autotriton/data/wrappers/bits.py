"""Truth values and whole numbers: predicates, logical and bitwise operations, broadcast, and predicates combined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, allocation, maybe_out, shape_of, tensor
from autotriton.data.wrappers.broadcast import operand_shapes
from autotriton.data.wrappers.pointwise import block_of, flat_kernel, flat_said, launch


@dataclass(frozen=True)
class _Test:
    """A question about one value, `{x}`."""

    name: str
    triton: str
    math: str
    words: str
    given: str = "torch.randn({0})"


_HOLES = "torch.randn({0}) / torch.relu(torch.randn({0}))"
"""Has infinities and NaN."""
_TESTS = (
    _Test("signbit", "libdevice.signbit({x}) != 0", "[sign bit of {x} is set]", "tells where the sign bit is set"),
    _Test("isnan", "{x} != {x}", "[{x} is NaN]", "tells which elements are NaN", "torch.sqrt(torch.randn({0}))"),
    _Test("isinf", 'tl.abs({x}) == float("inf")', "[{x} is infinite]", "tells which elements are infinite", _HOLES),
    _Test("isfinite", 'tl.abs({x}) < float("inf")', "[{x} is finite]", "tells which elements are finite", _HOLES),
    _Test("logical_not", "{x} == 0", "[{x} = 0]", "tells which elements are zero", "torch.relu(torch.randn({0}))"),
)


@dataclass(frozen=True)
class _Pair:
    """Two operands, `a` and `b`."""

    name: str
    triton: str
    math: str
    words: str
    logical: bool = False
    shifts: bool = False


_PAIRS = (
    _Pair("bitwise_and", "a & b", "input AND other, bit by bit", "takes the bitwise AND"),
    _Pair("bitwise_or", "a | b", "input OR other, bit by bit", "takes the bitwise OR"),
    _Pair("bitwise_xor", "a ^ b", "input XOR other, bit by bit", "takes the bitwise exclusive OR"),
    _Pair("bitwise_left_shift", "a << b", "input * 2^other", "shifts the bits of `input` to the left by `other`", shifts=True),
    _Pair("bitwise_right_shift", "a >> b", "floor(input / 2^other)", "shifts the bits of `input` to the right by `other`", shifts=True),
    _Pair("logical_and", "(a != 0) & (b != 0)", "input != 0 and other != 0", "tells where both are not zero", logical=True),
    _Pair("logical_or", "(a != 0) | (b != 0)", "input != 0 or other != 0", "tells where one of them is not zero", logical=True),
    _Pair("logical_xor", "(a != 0) != (b != 0)", "(input != 0) != (other != 0)", "tells where exactly one of them is not zero", logical=True),
)  # fmt: skip


def predicate(draw: Random) -> Plan:
    """One tensor in, booleans out; or those combined with another tensor of booleans."""
    test = draw.choice((_TESTS[0], *_TESTS))
    joined = draw.choice(_PAIRS[:3]) if draw.random() < 0.5 else None
    name = test.name if joined is None else draw.choice(("{0}_{1}", "fused_{0}_{1}")).format(test.name, joined.name)
    shape, block = shape_of(draw), block_of(draw)
    sizes = ", ".join(map(str, shape))
    parameters = (
        tensor("input", "the input tensor", test.given.format(sizes)),
        *((tensor("other", "booleans of the same shape", f"torch.rand({sizes}) > 0.5"),) if joined else ()),
        *maybe_out(draw, 0.2),
    )
    lines = ["x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)"]
    value = test.triton.format(x="x")
    body, given, pointers = ["x = input.contiguous()"], ["x"], ["x_ptr"]
    if joined:
        lines += [f"a = {value}", "b = tl.load(b_ptr + offsets, mask=mask) != 0"]
        value, pointers = joined.triton, ["x_ptr", "b_ptr"]
        body, given = ["x, b = input.contiguous(), other.contiguous()"], ["x", "b"]
    lines.append(f"y = {value}")
    made = "torch.empty(x.shape, dtype=torch.bool, device=x.device)"
    body += allocation(parameters, made)
    math = test.math.format(x="input")
    called = f"torch.{test.name}(input)"
    after = f" Of that and `other` it {joined.words}." if joined else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"It {test.words}.{after} The result is a tensor of booleans.",
        formula=f"out = {math if joined is None else joined.math.replace('input', math)}",
        shapes=(
            "input: any shape",
            *(["other: the shape of `input`"] if joined else []),
            "output: the shape of `input`",
        ),
        reference=(f"return {called if joined is None else f'torch.{joined.name}({called}, other)'}",),
        kernels=flat_kernel(name, pointers, [], lines),
        body=(*body, *launch(name, [*given, "out", "n_elements"], block)),
        said=(f"{flat_said(block)}.", "The result is stored as booleans."),
    )


def bitwise(draw: Random) -> Plan:
    """Whole numbers or booleans, broadcast; `other` may be a whole number."""
    pair = draw.choice((*_PAIRS[:3], *_PAIRS))
    name = draw.choice((pair.name, pair.name, f"{pair.name}_broadcast"))
    kind = draw.choice(("torch.int32", "torch.int64", "torch.bool", "torch.int16"))
    if pair.shifts or (pair.logical and kind == "torch.int16"):
        kind = "torch.int64"
    number = kind != "torch.bool" and not pair.logical and draw.random() < 0.3
    shapes = [[1], [1]]
    while min(map(math.prod, shapes)) < 8:  # of a few booleans an answer could be guessed
        shapes = operand_shapes(draw, 2)
    parameters = (
        tensor("input", "the first operand, of whole numbers or booleans", _whole(shapes[0], kind, pair.logical)),
        Parameter(
            "other",
            "Tensor" if pair.logical else "Tensor or int",
            "the second operand, broadcast against the first",
            given=f"random.randint(1, {6 if pair.shifts else 60})" if number else _whole(shapes[1], kind, pair.logical, 6 if pair.shifts else 100),
        ),
        *maybe_out(draw, 0.2),
    )  # fmt: skip
    block = block_of(draw)
    made = f"torch.empty(a.shape, dtype={'torch.bool' if pair.logical else 'dtype'}, device=a.device)"
    allocated = allocation(parameters, made)
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Elementwise it {pair.words}. `input` and `other` broadcast against each other."
        f"{' The result is a tensor of booleans.' if pair.logical else ''}",
        formula=f"out = {pair.math}",
        shapes=("input: any shape", "other: any shape that broadcasts with it", "output: the broadcast shape"),
        reference=(f"return torch.{pair.name}(input, other)",),
        kernels=_kernel(name, pair),
        body=(*_operands(pair), *allocated, *_launch(name, pair, block)),
        said=(
            "The operands are expanded to their common shape and made contiguous. The values stay whole numbers: nothing is "
            f"widened to fp32. {flat_said(block)}.",
            *(
                []
                if pair.logical
                else ["`other` may also be a whole number, which is a `tl.constexpr` case of the kernel."]
            ),
        ),
    )


def _kernel(name: str, pair: _Pair) -> str:
    load = "{0} = tl.load({0}_ptr + offsets, mask=mask, other=0)"
    if pair.logical:
        return flat_kernel(name, ["a_ptr", "b_ptr"], [], [load.format("a"), load.format("b"), f"y = {pair.triton}"])
    lines = [
        load.format("a"),
        "if IS_TENSOR:",
        f"    {load.format('b')}",
        "else:",
        "    b = number",
        f"y = {pair.triton}",
    ]
    return flat_kernel(name, ["a_ptr", "b_ptr"], ["number"], lines, ", IS_TENSOR: tl.constexpr")


def _operands(pair: _Pair) -> list[str]:
    expanded = [
        "shape = torch.broadcast_shapes(input.shape, other.shape)",
        "a, b = input.expand(shape).contiguous(), other.expand(shape).contiguous()",
    ]
    if pair.logical:
        return expanded
    return [
        "is_tensor = isinstance(other, torch.Tensor)",
        "if is_tensor:",
        f"    {expanded[0]}",
        "    a, b, number = input.expand(shape).contiguous(), other.expand(shape).contiguous(), 0",
        "    dtype = torch.promote_types(input.dtype, other.dtype)",
        "else:",
        "    a, number = input.contiguous(), int(other)",
        "    b = a  # not read",
        "    dtype = input.dtype",
    ]


def _launch(name: str, pair: _Pair, block: int) -> list[str]:
    if pair.logical:
        return launch(name, ["a", "b", "out", "n_elements"], block)
    return launch(name, ["a", "b", "out", "n_elements", "number"], block, ", IS_TENSOR=is_tensor")


def _whole(shape: list[int], kind: str, sparse: bool, high: int = 100) -> str:
    sizes = f"({', '.join(map(str, shape))},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
    if kind == "torch.bool":
        return f"torch.rand({sizes}) > 0.5"
    return f"torch.randint(0, {3 if sparse else high}, {sizes}{'' if kind == 'torch.int64' else f', dtype={kind}'})"
