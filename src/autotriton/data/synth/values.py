"""What a synthesised program is made of: typed values, operators as table entries, and the plan of one application.

No torch: shapes, types and value ranges are followed by rules, and running the program later proves them right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotriton.data.synth.builder import Builder

Shape = tuple[int, ...]

# What is known of a floating value's range, and what that implies.
DOMAINS: Mapping[str, frozenset[str]] = {
    "real": frozenset({"real"}),
    "sym": frozenset({"sym", "real"}),  # within [-1, 1]
    "nonneg": frozenset({"nonneg", "real"}),
    "pos": frozenset({"pos", "nonneg", "real"}),
    "above_one": frozenset({"above_one", "pos", "nonneg", "real"}),
    "unit": frozenset({"unit", "nonneg", "sym", "real"}),  # within [0, 1]
    "prob": frozenset({"prob", "unit", "pos", "nonneg", "sym", "real"}),  # within (0, 1)
}
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True)
class Value:
    """One tensor of the program. Its name is chosen when the text is written."""

    id: int
    shape: Shape
    dtype: str = "float32"
    domain: str = "real"
    bound: float = 4.0
    """About the largest magnitude: keeps `exp` of a sum of squares from being written."""
    exact: bool = True
    """Bit for bit the same in any precision: only such values may meet a jump (`floor`, `>`)."""
    role: str = "x"
    """What it is called after: x, weight, mask, target, ..."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    def within(self, domain: str) -> bool:
        return domain in DOMAINS.get(self.domain, frozenset())


@dataclass(frozen=True)
class Wanted:
    """A weight an application needs when it is not written as a layer."""

    role: str
    shape: Shape
    domain: str = "real"
    scale: float = 1.0


@dataclass(frozen=True)
class LayerArgument:
    """One constructor argument: positional without a key; `hyper` is the name people give it."""

    value: Any
    hyper: str
    key: str | None = None


@dataclass(frozen=True)
class Plan:
    """How one operator is applied here: what comes out, and what is written."""

    shape: Shape
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Fill the placeholders of the spelling."""
    weights: tuple[Wanted, ...] = ()
    layer: tuple[LayerArgument, ...] | None = None
    """Arguments of the layer's constructor; None: not written as a layer here."""
    dtype: str | None = None
    domain: str | None = None
    bound: float | None = None
    exact: bool | None = None


Rule = Callable[["Builder", "Op", tuple[Value, ...]], Plan | None]
"""The typed signature and shape rule of an operator; None where these operands do not fit."""


@dataclass(frozen=True)
class Op:
    """One entry of the table."""

    name: str
    family: str
    rule: Rule
    spellings: tuple[str, ...] = ()
    """`{0}`, `{1}` are operands, `{w}` the weights in order, other placeholders come from the plan."""
    layer: str | None = None
    takes: str = "real"
    gives: str | None = None
    """Domain of the result; None: nothing known."""
    bound: Callable[[float], float] | None = None
    """Magnitude of the result from that of the first operand; None: about the same."""
    limit: float | None = None
    """Largest magnitude the operand may have."""
    rarity: int = 1
    """1: in every model; 2: known; 3: rare."""
    jumps: bool = False
    """Not continuous, so that rounding before it would decide the answer."""
    half: bool = True
    """Implemented for fp16 and bf16 on the CPU."""
    noun: str = ""
    """What its result is called."""
    exact: bool = False
    """Moves or compares only: an exact operand gives an exact result."""
    arity: int = 1
    named: bool = False
    """Only where a recipe asks for it by name: it needs to be told how."""
    lacks_layer_in_half: bool = False
