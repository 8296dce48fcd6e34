"""What a function is before it is text: its parameters, what it computes in torch, and its kernels.

Must stay true: the task and the answer get their signature from the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

OUT_ABOUT = "contiguous tensor that receives the result; a new one is made when it is None"


@dataclass(frozen=True)
class Parameter:
    """One parameter of the function."""

    name: str
    kind: str
    """As documentation writes it: `Tensor`, `float`, `int, optional`."""
    about: str
    default: str | None = None
    keyword: bool = False
    given: str = ""
    """What `get_inputs` gives for it, as Python text; empty: it is left at its default."""

    @property
    def text(self) -> str:
        return self.name if self.default is None else f"{self.name}={self.default}"


@dataclass(frozen=True)
class Plan:
    """A function with its meaning and its answer, in canonical names."""

    name: str
    parameters: tuple[Parameter, ...]
    summary: str
    formula: str
    shapes: tuple[str, ...]
    reference: tuple[str, ...]
    """Lines of the body in torch."""
    kernels: str
    body: tuple[str, ...]
    """Lines of the answer's body."""
    said: tuple[str, ...]
    """What is true of the answer and worth saying before it: how the work is divided, what is special."""
    family: str = ""
    returns: str = "Tensor"
    """As the signature shows it."""


@dataclass(frozen=True)
class Scalar:
    """A number given at run time."""

    name: str
    default: str
    low: float
    high: float
    about: str

    def parameter(self, *, keyword: bool = False, required: bool = False) -> Parameter:
        return Parameter(
            self.name,
            "float",
            self.about,
            default=None if required else self.default,
            keyword=keyword,
            given=f"random.uniform({self.low}, {self.high})",
        )


def tensor(name: str, about: str, given: str, *, default: str | None = None) -> Parameter:
    return Parameter(name, "Tensor" if default is None else "Tensor, optional", about, default=default, given=given)


def flag(name: str, about: str, value: bool, *, keyword: bool = False) -> Parameter:
    """A boolean that is False unless given."""
    return Parameter(name, "bool", about, default="False", keyword=keyword, given="True" if value else "")


def maybe_out(draw: Random, share: float = 0.35) -> tuple[Parameter, ...]:
    if draw.random() >= share:
        return ()
    return (Parameter("out", "Tensor, optional", OUT_ABOUT, default="None", keyword=True),)


def has_out(parameters: Iterable[Parameter]) -> bool:
    return any(parameter.name == "out" for parameter in parameters)


def allocation(parameters: Iterable[Parameter], made: str) -> list[str]:
    """`out` is used where it is given."""
    return ["if out is None:", f"    out = {made}"] if has_out(parameters) else [f"out = {made}"]


def signature(parameters: Sequence[Parameter]) -> str:
    """Inside the parentheses."""
    positional = [parameter.text for parameter in parameters if not parameter.keyword]
    named = [parameter.text for parameter in parameters if parameter.keyword]
    return ", ".join([*positional, *(["*", *named] if named else [])])


def inputs(parameters: Sequence[Parameter]) -> str:
    """What `get_inputs` returns: a list, with a dictionary behind it where something is given by name."""
    places: list[str] = []
    named: list[str] = []
    for parameter in parameters:
        if not parameter.given:
            continue
        in_place = not parameter.keyword and not named and len(places) == parameters.index(parameter)
        if in_place:
            places.append(parameter.given)
        else:
            named.append(f'"{parameter.name}": {parameter.given}')
    listed = "[" + ", ".join(places) + "]"
    return f"{listed}, {{{', '.join(named)}}}" if named else listed


def indented(lines: Iterable[str], by: int = 4) -> str:
    return "\n".join(" " * by + line if line else "" for line in lines)


def drawn(shape: Sequence[int], dtype: str = "float32", domain: str = "any") -> str:
    """A random tensor of a shape as torch text."""
    sizes = ", ".join(map(str, shape))
    typed = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    if domain == "any":
        return f"torch.randn({sizes}{typed})" if sizes else f"torch.randn((){typed})"
    low = {"nonneg": "", "positive": " + 0.1", "unit": " * 0.9 + 0.05"}[domain]
    return f"torch.rand({sizes}{typed}){low}" if sizes else f"torch.rand((){typed}){low}"


def dtype_of(draw: Random) -> str:
    return draw.choices(("float32", "float16", "bfloat16"), weights=(16, 1, 1))[0]


def shape_of(draw: Random, dims: int | None = None, most: int = 4000) -> list[int]:
    """Awkward sizes: odd ones, ones, and few that fill a block."""
    count = dims or draw.choices((1, 2, 3, 4), weights=(2, 5, 4, 2))[0]
    largest = {1: 3000, 2: 90, 3: 17, 4: 9}[count]
    while True:
        shape = [draw.choice((1, 2, 3, *range(3, largest))) for _ in range(count)]
        total = 1
        for size in shape:
            total *= size
        if 8 <= total <= most:
            return shape
