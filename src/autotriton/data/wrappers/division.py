"""Division and its remainders: `div` with a rounding mode, floor_divide, remainder, fmod. `other` is a tensor or a number.

Quotients are rounded to nearest (`tl.div_rn`) before they are cut to whole numbers, so that 6 / 3 is never below 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, allocation, drawn, maybe_out, tensor
from autotriton.data.wrappers.broadcast import operand_shapes
from autotriton.data.wrappers.pointwise import block_of, flat_kernel, flat_said, launch

_SIGNED = "tl.where((y != 0) & ((y < 0) != (b < 0)), y + b, y)"


@dataclass(frozen=True)
class _Kind:
    name: str
    torch: str
    lines: tuple[str, ...]
    math: str
    words: str


_KINDS = (
    _Kind("div", "torch.div(input, other, rounding_mode=rounding_mode)", ("y = tl.div_rn(a, b)", 'if ROUNDING == "trunc":', "    y = libdevice.trunc(y)", 'if ROUNDING == "floor":', "    y = tl.floor(y)"), "round(input / other) by rounding_mode", "divides `input` by `other` and rounds the quotient as `rounding_mode` says"),
    _Kind("floor_divide", "torch.floor_divide(input, other)", ("y = tl.floor(tl.div_rn(a, b))",), "floor(input / other)", "divides `input` by `other` and rounds down"),
    _Kind("remainder", "torch.remainder(input, other)", ("y = libdevice.fmod(a, b)", f"y = {_SIGNED}"), "input - other * floor(input / other)", "takes the remainder of the division, which has the sign of `other`"),
    _Kind("fmod", "torch.fmod(input, other)", ("y = libdevice.fmod(a, b)",), "input - other * trunc(input / other)", "takes the remainder of the division, which has the sign of `input`"),
)  # fmt: skip


def division(draw: Random) -> Plan:
    """`div` as often as all the others."""
    kind = draw.choice((_KINDS[0], _KINDS[0], _KINDS[0], *_KINDS[1:]))
    rounds = kind.name == "div"
    whole = draw.random() < 0.3
    parameters = (
        *_operands(draw, whole, "fmod" in kind.lines[0]),
        *((_rounding(draw),) if rounds else ()),
        *maybe_out(draw, 0.2),
    )
    flags = ", ROUNDING: tl.constexpr, IS_TENSOR: tl.constexpr" if rounds else ", IS_TENSOR: tl.constexpr"
    more = ", ROUNDING=rounding_mode, IS_TENSOR=is_tensor" if rounds else ", IS_TENSOR=is_tensor"
    block, name = block_of(draw), kind.name
    lines = [
        "a = tl.load(a_ptr + offsets, mask=mask, other=1).to(tl.float32)",
        "if IS_TENSOR:",
        "    b = tl.load(b_ptr + offsets, mask=mask, other=1).to(tl.float32)",
        "else:",
        "    b = tl.zeros_like(a) + number",
        *kind.lines,
    ]
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Elementwise it {kind.words}. `input` and `other` broadcast against each other.{_TYPES * rounds}",
        formula=f"out = {kind.math}",
        shapes=("input: any shape", "other: any shape that broadcasts with it, or a number", "output: the broadcast shape"),
        reference=(f"return {kind.torch}",),
        kernels=flat_kernel(name, ["a_ptr", "b_ptr"], ["number"], lines, flags),
        body=(
            "is_tensor = isinstance(other, torch.Tensor)",
            "if is_tensor:",
            "    shape = torch.broadcast_shapes(input.shape, other.shape)",
            "    a, b, number = input.expand(shape).contiguous(), other.expand(shape).contiguous(), 0.0",
            "else:",
            "    a, number = input.contiguous(), float(other)",
            "    b = a  # not read",
            "dtype = torch.result_type(input, other)",
            *(["if rounding_mode is None and not dtype.is_floating_point:", "    dtype = torch.float32"] * rounds),
            *allocation(parameters, "torch.empty(a.shape, dtype=dtype, device=a.device)"),
            *launch(name, ["a", "b", "out", "n_elements", "number"], block, more),
        ),
        said=(
            "`other` may be a tensor or a number: a `tl.constexpr` says which, a tensor is expanded to the common shape, "
            "a number is passed as it is.",
            *(["The rounding mode is a `tl.constexpr` too, so that only its branch is compiled."] * rounds),
            *(["`tl.div_rn` rounds the quotient to nearest, so a whole quotient is never cut to the one below."] * ("div_rn" in kind.lines[0])),
            f"{flat_said(block)}.",
        ),
    )  # fmt: skip


_TYPES = " Without a rounding mode whole numbers give float32; with one they stay whole."


def _rounding(draw: Random) -> Parameter:
    about = "None for none, 'trunc' towards zero, 'floor' down"
    given = draw.choice(("", '"trunc"', '"floor"'))
    return Parameter("rounding_mode", "str, optional", about, default="None", keyword=True, given=given)


def _operands(draw: Random, whole: bool, exact: bool) -> tuple[Parameter, Parameter]:
    """Divisors away from zero. Whole numbers stay small, so that fp32 has every quotient."""
    shapes = operand_shapes(draw, 2)
    number = draw.random() < 0.4
    if whole:
        sizes = [f"({', '.join(map(str, shape))},)" for shape in shapes]
        given = [f"torch.randint(-60, 60, {sizes[0]})", f"torch.randint(1, 9, {sizes[1]})"]
        scalar = "random.randint(2, 9)"
    else:
        given = [f"{drawn(shapes[0])} * 5.0", drawn(shapes[1], domain="positive")]
        scalar = "random.uniform(0.4, 2.0)"
        if exact and draw.random() < 0.5:
            given[1] = f"-({given[1]})"
    about = "what it is divided by, a tensor or a number"
    return (
        tensor("input", "what is divided", given[0]),
        Parameter("other", "Tensor or Number", about, given=scalar if number else given[1]),
    )
