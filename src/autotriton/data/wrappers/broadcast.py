"""Several tensors in, broadcast against each other, one out: arithmetic, comparisons, choices, each with a chain behind.

The second operand may be a number where torch takes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    Scalar,
    allocation,
    drawn,
    dtype_of,
    indented,
    maybe_out,
    shape_of,
)
from autotriton.data.wrappers.pointwise import block_of, flat_kernel, flat_said, launch
from autotriton.data.wrappers.steps import Chain, chain


@dataclass(frozen=True)
class Operation:
    """`operands` are the parameters' names; kernels call their values by the letters a, b, c."""

    name: str
    operands: tuple[str, ...]
    torch: str
    triton: str
    math: str
    words: str
    scalars: tuple[Scalar, ...] = ()
    domains: tuple[str, ...] = ()
    number: bool = False
    """The second operand may be a number."""
    result: str = "any"
    """What the values are like; `bool` is a truth value, behind which no chain stands."""


_ALPHA = Scalar("alpha", "1", 0.3, 2.0, "factor of `other`")
_VALUE = Scalar("value", "1", 0.3, 2.0, "factor of the last term")
_WEIGHT = Scalar("weight", "0.5", 0.1, 0.9, "0 gives the first tensor, 1 the second")
_TWO = ("input", "other")
OPERATIONS = (
    Operation("add", _TWO, "torch.add(input, other, alpha=alpha)", "a + alpha * b", "input + alpha * other", "adds `other`, scaled by `alpha`, to `input`", (_ALPHA,), number=True),
    Operation("sub", _TWO, "torch.sub(input, other, alpha=alpha)", "a - alpha * b", "input - alpha * other", "subtracts `other`, scaled by `alpha`, from `input`", (_ALPHA,), number=True),
    Operation("rsub", _TWO, "torch.rsub(input, other, alpha=alpha)", "b - alpha * a", "other - alpha * input", "subtracts `input`, scaled by `alpha`, from `other`", (_ALPHA,), number=True),
    Operation("mul", _TWO, "torch.mul(input, other)", "a * b", "input * other", "multiplies the two", number=True),
    Operation("div", _TWO, "torch.div(input, other)", "a / b", "input / other", "divides `input` by `other`", domains=("any", "positive"), number=True),
    Operation("pow", _TWO, "torch.pow(input, other)", "libdevice.pow(a, b)", "input ^ other", "raises `input` to the power `other`", domains=("positive", "any"), number=True, result="positive"),
    Operation("maximum", _TWO, "torch.maximum(input, other)", "tl.maximum(a, b)", "max(input, other)", "takes the larger of the two"),
    Operation("minimum", _TWO, "torch.minimum(input, other)", "tl.minimum(a, b)", "min(input, other)", "takes the smaller of the two"),
    Operation("hypot", _TWO, "torch.hypot(input, other)", "libdevice.hypot(a, b)", "sqrt(input^2 + other^2)", "takes the hypotenuse of the two legs", result="nonneg"),
    Operation("atan2", _TWO, "torch.atan2(input, other)", "libdevice.atan2(a, b)", "atan2(input, other)", "takes the angle of the point (other, input)", domains=("positive", "positive")),
    Operation("logaddexp", _TWO, "torch.logaddexp(input, other)", "tl.maximum(a, b) + libdevice.log1p(tl.exp(-tl.abs(a - b)))", "ln(exp(input) + exp(other))", "adds the two in log space"),
    Operation("xlogy", _TWO, "torch.xlogy(input, other)", "tl.where(a == 0.0, 0.0, a * tl.log(b))", "input * ln(other), 0 where input is 0", "multiplies `input` by the logarithm of `other`", domains=("any", "positive")),
    Operation("squared_difference", _TWO, "torch.square(input - other)", "(a - b) * (a - b)", "(input - other)^2", "squares the difference", result="nonneg"),
    Operation("abs_difference", _TWO, "torch.abs(input - other)", "tl.abs(a - b)", "|input - other|", "takes the distance of the two", result="nonneg"),
    Operation("lerp", ("input", "end"), "torch.lerp(input, end, weight)", "a + weight * (b - a)", "input + weight * (end - input)", "interpolates between `input` and `end`", (_WEIGHT,)),
    Operation("gated", ("input", "gate"), "input * torch.sigmoid(gate)", "a / (1.0 + tl.exp(-b))", "input * sigmoid(gate)", "multiplies `input` by the sigmoid of `gate`"),
    Operation("swiglu", ("gate", "up"), "F.silu(gate) * up", "a / (1.0 + tl.exp(-a)) * b", "gate * sigmoid(gate) * up", "multiplies `up` by SiLU of `gate`"),
    Operation("axpby", ("x", "y"), "alpha * x + beta * y", "alpha * a + beta * b", "alpha * x + beta * y", "adds the two tensors with a factor each", (Scalar("alpha", "1.0", 0.3, 2.0, "factor of `x`"), Scalar("beta", "1.0", 0.3, 2.0, "factor of `y`"))),
    Operation("addcmul", ("input", "tensor1", "tensor2"), "torch.addcmul(input, tensor1, tensor2, value=value)", "a + value * b * c", "input + value * tensor1 * tensor2", "adds the product of `tensor1` and `tensor2`, scaled by `value`, to `input`", (_VALUE,)),
    Operation("addcdiv", ("input", "tensor1", "tensor2"), "torch.addcdiv(input, tensor1, tensor2, value=value)", "a + value * b / c", "input + value * tensor1 / tensor2", "adds the quotient of `tensor1` and `tensor2`, scaled by `value`, to `input`", (_VALUE,), domains=("any", "any", "positive")),
    Operation("multiply_add", ("x", "y", "z"), "x * y + z", "a * b + c", "x * y + z", "multiplies the first two and adds the third"),
    Operation("where", ("condition", "input", "other"), "torch.where(condition, input, other)", "tl.where(a != 0, b, c)", "input where condition, otherwise other", "takes `input` where `condition` holds and `other` elsewhere", domains=("bool", "any", "any")),
    Operation("masked_fill", ("input", "mask"), "input.masked_fill(mask, value)", "tl.where(b != 0, value, a)", "value where mask, otherwise input", "replaces the elements where `mask` is true", (Scalar("value", "0.0", -2.0, 2.0, "what masked elements become"),), domains=("any", "bool")),
    Operation("clamp_between", ("input", "lower", "upper"), "torch.minimum(torch.maximum(input, lower), upper)", "tl.minimum(tl.maximum(a, b), c)", "min(max(input, lower), upper)", "limits `input` elementwise to [lower, upper]"),
    Operation("gt", _TWO, "torch.gt(input, other)", "a > b", "input > other", "tells where `input` is larger", number=True, result="bool"),
    Operation("le", _TWO, "torch.le(input, other)", "a <= b", "input <= other", "tells where `input` is not larger", number=True, result="bool"),
    Operation("lt", _TWO, "torch.lt(input, other)", "a < b", "input < other", "tells where `input` is smaller", number=True, result="bool"),
)  # fmt: skip
_LETTERS = "abc"


def broadcast(draw: Random) -> Plan:
    operation = draw.choice(OPERATIONS)
    behind = Chain(())
    if operation.result != "bool" and draw.random() < 0.6:
        taken = frozenset((*operation.operands, *(scalar.name for scalar in operation.scalars)))
        behind = chain(draw, draw.choice((1, 1, 2, 3)), domain=operation.result, first=False, taken=taken)
    name = "_".join([operation.name, *behind.names])
    name = draw.choice((f"fused_{name}", name, f"{name}_forward")) if behind.steps else name
    way = draw.choice((_expanded, _expanded, _strided)) if not operation.number else _numbered
    return way(draw, _Chosen(operation, behind, name, dtype_of(draw), block_of(draw)))


@dataclass(frozen=True)
class _Chosen:
    operation: Operation
    behind: Chain
    name: str
    dtype: str
    block: int

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return (*self.operation.scalars, *self.behind.scalars)

    @property
    def names(self) -> list[str]:
        return [scalar.name for scalar in self.scalars]

    @property
    def letters(self) -> str:
        return _LETTERS[: len(self.operation.operands)]

    @property
    def result_type(self) -> str:
        """Of the values, as the wrapper finds it."""
        floats = [n for n, d in zip(self.operation.operands, self._domains, strict=True) if d != "bool"]
        if self.operation.result == "bool":
            return "torch.bool"
        found = f"{floats[0]}.dtype"
        for other in floats[1:]:
            found = f"torch.promote_types({found}, {other}.dtype)"
        return found

    @property
    def _domains(self) -> tuple[str, ...]:
        return self.operation.domains or ("any",) * len(self.operation.operands)

    def parameters(self, draw: Random, number: bool = False) -> tuple[Parameter, ...]:
        shapes = operand_shapes(draw, len(self.operation.operands))
        found = []
        for place, (name, domain) in enumerate(zip(self.operation.operands, self._domains, strict=True)):
            about = f"the {('first', 'second', 'third')[place]} operand"
            kind = "Tensor"
            given = _values(shapes[place], self.dtype, domain)
            if number and place == 1:
                given = "random.uniform(0.4, 2.0)"
            if self.operation.number and place == 1:
                kind, about = "Tensor or Number", f"{about}, a tensor or a number"
            found.append(Parameter(name, kind, f"{about}, broadcast against the others", given=given))
        keyword = draw.random() < 0.6
        return (
            *found,
            *(scalar.parameter(keyword=keyword) for scalar in self.scalars),
            *maybe_out(draw),
        )

    def kernel_lines(self, loads: list[str]) -> list[str]:
        return [*loads, f"y = {self.operation.triton}", *self.behind.lines("y", "y")]

    def plan(self, parameters: tuple[Parameter, ...], kernels: str, body: list[str], said: tuple[str, ...]) -> Plan:
        after = f" Then it {self.behind.words}." if self.behind.steps else ""
        truth = " The result is a tensor of booleans." if self.operation.result == "bool" else ""
        listed = " and ".join(f"`{name}`" for name in self.operation.operands)
        shapes = [f"{name}: any shape" for name in self.operation.operands[:1]]
        shapes += [f"{name}: any shape that broadcasts with it" for name in self.operation.operands[1:]]
        return Plan(
            name=self.name,
            parameters=parameters,
            summary=f"Elementwise it {self.operation.words}.{after} {listed} broadcast against each other.{truth}",
            formula="; ".join([f"out = {self.behind.math(self._math)}", *self.behind.definitions]),
            shapes=(*shapes, "output: the broadcast shape"),
            reference=(f"return {self.behind.torch(self.operation.torch)}",),
            kernels=kernels,
            body=tuple(body),
            said=said,
        )

    @property
    def _math(self) -> str:
        return f"({self.operation.math})" if self.behind.steps and "," in self.operation.math else self.operation.math


def _expanded(draw: Random, chosen: _Chosen) -> Plan:
    """Operands are expanded to one shape and made contiguous: the kernel is flat."""
    parameters = chosen.parameters(draw)
    loads = [f"{letter} = {_load(letter, 'offsets')}" for letter in chosen.letters]
    kernel = flat_kernel(
        chosen.name, [f"{letter}_ptr" for letter in chosen.letters], chosen.names, chosen.kernel_lines(loads)
    )
    operands = chosen.operation.operands
    shapes = ", ".join(f"{name}.shape" for name in operands)
    body = [f"shape = torch.broadcast_shapes({shapes})"]
    body += [
        f"{letter} = {name}.expand(shape).contiguous()" for letter, name in zip(chosen.letters, operands, strict=True)
    ]
    made = f"torch.empty(shape, dtype={chosen.result_type}, device={operands[0]}.device)"
    body += [*allocation(parameters, made)]
    body += launch(chosen.name, [*chosen.letters, "out", "n_elements", *chosen.names], chosen.block)
    said = (
        "The operands are expanded to their common shape and made contiguous, so the kernel need not know about "
        f"broadcasting. {flat_said(chosen.block)}.",
    )
    return chosen.plan(parameters, kernel, body, said)


def _strided(draw: Random, chosen: _Chosen) -> Plan:
    """No copies: the kernel finds every operand's element by its strides, which are 0 where it is broadcast."""
    parameters = chosen.parameters(draw)
    strides = [f"{letter}{axis}" for letter in chosen.letters for axis in range(4)]
    lines = ["i3 = offsets % d3", "i2 = offsets // d3 % d2", "i1 = offsets // (d3 * d2) % d1"]
    lines.append("i0 = offsets // (d3 * d2 * d1)")
    for letter in chosen.letters:
        place = " + ".join(f"i{axis} * {letter}{axis}" for axis in range(4))
        lines.append(f"{letter} = {_load(letter, place)}")
    kernel = flat_kernel(
        chosen.name,
        [f"{letter}_ptr" for letter in chosen.letters],
        ["d1", "d2", "d3", *strides, *chosen.names],
        chosen.kernel_lines(lines),
    )
    operands = chosen.operation.operands
    body = [f"shape = torch.broadcast_shapes({', '.join(f'{name}.shape' for name in operands)})"]
    body.append(f"made = torch.empty(shape, dtype={chosen.result_type}, device={operands[0]}.device)")
    body[-1:] = allocation(parameters, body[-1].removeprefix("made = "))
    body.append("dims = (1,) * (4 - len(shape)) + tuple(shape)  # up to four dimensions")
    body += [f"{letter} = {name}.expand(dims)" for letter, name in zip(chosen.letters, operands, strict=True)]
    given = [*chosen.letters, "out", "n_elements", "dims[1]", "dims[2]", "dims[3]"]
    given += [f"*{letter}.stride()" for letter in chosen.letters]
    body += launch(chosen.name, [*given, *chosen.names], chosen.block)
    said = (
        "Nothing is copied: from its flat index each element's four coordinates are computed, and an operand is "
        "addressed by its strides, which are 0 along the dimensions it is broadcast over.",
        f"A program takes {chosen.block} elements, and the mask cuts off the rest.",
    )
    return chosen.plan(parameters, kernel, body, said)


def _numbered(draw: Random, chosen: _Chosen) -> Plan:
    """The second operand is a tensor or a number; which of them is known when the kernel is compiled."""
    parameters = chosen.parameters(draw, number=draw.random() < 0.45)
    lines = [
        f"a = {_load('a', 'offsets')}",
        "if IS_TENSOR:",
        "    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)",
        "else:",
        "    b = number",
    ]
    if "libdevice.pow" in chosen.operation.triton:  # an external function wants blocks of one type
        lines[-1] = "    b = tl.zeros_like(a) + number"
    kernel = flat_kernel(
        chosen.name,
        ["a_ptr", "b_ptr"],
        ["number", *chosen.names],
        chosen.kernel_lines(lines),
        ", IS_TENSOR: tl.constexpr",
    )
    made = (
        f"torch.empty(a.shape, dtype={'torch.bool' if chosen.operation.result == 'bool' else 'dtype'}, device=a.device)"
    )
    body = [
        "is_tensor = isinstance(other, torch.Tensor)",
        "if is_tensor:",
        *indented(
            (
                "shape = torch.broadcast_shapes(input.shape, other.shape)",
                "a, b, number = input.expand(shape).contiguous(), other.expand(shape).contiguous(), 0.0",
            )
        ).split("\n"),
        "else:",
        *indented(
            (
                "a, number = input.contiguous(), float(other)",
                "b = a  # not read",
            )
        ).split("\n"),
        *(["dtype = torch.result_type(input, other)"] * (chosen.operation.result != "bool")),
        *allocation(parameters, made),
        *launch(
            chosen.name,
            ["a", "b", "out", "n_elements", "number", *chosen.names],
            chosen.block,
            ", IS_TENSOR=is_tensor",
        ),
    ]
    said = (
        "`other` may be a tensor or a number: a `tl.constexpr` says which, a tensor is expanded to the common shape, "
        "a number is passed as it is.",
        f"{flat_said(chosen.block)}.",
    )
    return chosen.plan(parameters, kernel, body, said)


def _load(letter: str, place: str) -> str:
    return f"tl.load({letter}_ptr + {place}, mask=mask).to(tl.float32)"


def _values(shape: list[int], dtype: str, domain: str) -> str:
    return (
        f"torch.rand({', '.join(map(str, shape)) or '()'}) > 0.5" if domain == "bool" else drawn(shape, dtype, domain)
    )


def operand_shapes(draw: Random, count: int) -> list[list[int]]:
    """The first has all the dimensions in half of the cases; the others lack some, or have ones."""
    full = shape_of(draw)
    found = []
    for place in range(count):
        shape = list(full)
        if draw.random() < (0.2 if place == 0 else 0.45):
            kind = draw.random()
            if kind < 0.4:
                shape = shape[draw.randrange(len(shape)) :]
            else:
                shape[draw.randrange(len(shape))] = 1
        found.append(shape)
    return found
