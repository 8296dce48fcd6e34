"""Grows one program step by step: picks spellings, makes weights, and guards operands against leaving their domain.

Must stay true: everything random comes from the generator given, so the same seed gives the same program anywhere.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autotriton.data.synth.sizes import draw_shape, sizes_for
from autotriton.data.synth.values import LayerArgument, Op, Plan, Shape, Value, Wanted


class DeadEnd(Exception):
    """No operator fits here; the recipe is begun anew."""


@dataclass(frozen=True)
class Given:
    """An input or a parameter: `high` bounds indices, `scale` the spread of weights."""

    value: Value
    high: int | None = None
    scale: float = 1.0
    learned: bool = False


@dataclass(frozen=True)
class Step:
    """One statement: an operator applied. Operands stand in `text` as `\\x01id\\x02`."""

    op: Op
    operands: tuple[Value, ...]
    outs: tuple[Value, ...]
    text: str
    layer: tuple[LayerArgument, ...] | None = None
    """With it, `text` is what is called on the layer, `\\x03` its place."""
    inner: tuple[Step, ...] = ()
    """Layers one behind the other that are written as one `nn.Sequential`, called like a layer."""


def token(value: Value) -> str:
    return f"\x01{value.id}\x02"


# How people keep a value inside a function's domain: the text, the domain it then has, and its magnitude.
_GUARDS: dict[str, tuple[tuple[str, str], ...]] = {
    "pos": (
        ("{0}.abs() + 0.1", "pos"),
        ("torch.abs({0}) + 1e-2", "pos"),
        ("{0} * {0} + 0.05", "pos"),
        ("F.softplus({0}) + 0.01", "pos"),
        ("torch.clamp({0}, min=1e-2)", "pos"),
    ),
    "nonneg": (
        ("{0}.abs()", "nonneg"),
        ("F.relu({0})", "nonneg"),
        ("{0}.square()", "nonneg"),
        ("torch.clamp({0}, min=0.0)", "nonneg"),
    ),
    "above_one": (("{0}.abs() + 1.1", "above_one"), ("F.softplus({0}) + 1.05", "above_one")),
    "sym": (
        ("0.95 * torch.tanh({0})", "sym"),
        ("torch.clamp({0}, -0.95, 0.95)", "sym"),
        ("0.9 * torch.sin({0})", "sym"),
    ),
    "unit": (("torch.sigmoid({0})", "prob"), ("torch.clamp({0}, 0.0, 1.0)", "unit")),
    "prob": (("torch.sigmoid({0})", "prob"), ("{0}.sigmoid()", "prob")),
}
_SHRINK = (("{0} * 0.1", None), ("torch.tanh({0})", "sym"), ("{0} / 8.0", None), ("{0}.clamp(-3.0, 3.0)", None))


@dataclass
class Builder:
    rng: random.Random
    scale: str = "laptop"
    module: bool = True
    """A class with layers; else a function whose weights are inputs."""
    dtype: str = "float32"
    flavour: str = "torch."
    """The spelling this author prefers: `F.`, `torch.` or a method."""
    table: dict[str, Op] = field(default_factory=dict)
    givens: list[Given] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    results: tuple[Value, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    """What the recipe insists on; rules ask it before they choose."""
    _count: int = 0

    def __post_init__(self) -> None:
        self.sizes = sizes_for(self.scale)

    # --- values -------------------------------------------------------------------------------------------

    def shape(self, kind: str) -> Shape:
        return draw_shape(self.rng, self.sizes, kind)

    def size(self, axis: str) -> int:
        choices: tuple[int, ...] = getattr(self.sizes, axis)
        return self.rng.choice(choices)

    def input(
        self, shape: Shape, *, domain: str = "real", dtype: str | None = None, role: str = "x", high: int | None = None
    ) -> Value:
        bound = {"real": 4.0, "sym": 1.0, "unit": 1.0, "prob": 1.0, "integer": 8.0}.get(domain, 2.0)
        bound = float(high) if high is not None else bound
        value = self._value(Plan(shape, dtype=dtype or self.dtype, domain=domain, bound=bound, exact=True), role=role)
        self.givens.append(Given(value, high))
        return value

    def weight(self, wanted: Wanted) -> Value:
        """A parameter of the module, or one more input of the function."""
        plan = Plan(wanted.shape, dtype=self.dtype, domain=wanted.domain, bound=2.0 * wanted.scale, exact=True)
        value = self._value(plan, role=wanted.role)
        self.givens.append(Given(value, scale=wanted.scale, learned=self.module))
        return value

    def _value(self, plan: Plan, *, role: str) -> Value:
        self._count += 1
        return Value(
            self._count,
            plan.shape,
            plan.dtype or self.dtype,
            plan.domain or "real",
            4.0 if plan.bound is None else plan.bound,
            bool(plan.exact),
            role,
        )

    # --- steps --------------------------------------------------------------------------------------------

    def apply(self, name: str, *operands: Value, **fixed: Any) -> Value:
        """The operator's result; DeadEnd where it does not fit."""
        made = self.attempt(name, *operands, **fixed)
        if made is None:
            raise DeadEnd(name)
        return made[0]

    def parts(self, name: str, *operands: Value, **fixed: Any) -> tuple[Value, ...]:
        """For operators with several results."""
        made = self.attempt(name, *operands, **fixed)
        if made is None:
            raise DeadEnd(name)
        return made

    def attempt(self, name: str, *operands: Value, **fixed: Any) -> tuple[Value, ...] | None:
        op = self.table[name]
        if not operands or not self._suits(op, operands[0]):
            return None
        before = (len(self.steps), len(self.givens))
        first = self._guarded(op, operands[0])
        self.fixed = fixed
        plan = op.rule(self, op, (first, *operands[1:]))
        self.fixed = {}
        if plan is None or _too_large(plan.shape, self.sizes.elements):
            del self.steps[before[0] :], self.givens[before[1] :]
            return None
        return self._write(op, (first, *operands[1:]), plan)

    def chain(self, value: Value, names: Sequence[str], count: int) -> Value:
        """`count` operators out of `names`, one after another; fewer where nothing fits any more."""
        used: list[str] = []
        for _ in range(count):
            pool = [name for name in names if name not in used[-2:]]
            self.rng.shuffle(pool)
            for name in pool[:8]:
                made = self.attempt(name, value)
                if made is not None:
                    value = made[0]
                    used.append(name)
                    break
        return value

    def _suits(self, op: Op, value: Value) -> bool:
        if op.takes == "bool":
            return value.dtype == "bool"
        if op.takes == "integer":
            return value.dtype in ("int64", "int32", "int16", "int8", "uint8")
        if op.takes == "any":
            return value.exact or not op.jumps
        if not value.floating or (op.jumps and not value.exact):
            return False
        return op.half or value.dtype in ("float32", "float64")

    def _guarded(self, op: Op, value: Value) -> Value:
        if op.takes in ("bool", "integer", "any"):
            return value
        if op.limit is not None and value.bound > op.limit:
            text, domain = self.rng.choice(_SHRINK)
            bound = (
                1.0 if domain == "sym" else 3.0 if "clamp" in text else value.bound * (0.1 if "0.1" in text else 0.125)
            )
            kept = (
                value.domain if domain is None and value.domain in ("pos", "nonneg") and "clamp" not in text else None
            )
            value = self._guard(text, value, domain or kept or "real", bound)
            if value.bound > op.limit:
                value = self._guard("torch.tanh({0})", value, "sym", 1.0)
        if not value.within(op.takes):
            text, domain = self.rng.choice(_GUARDS[op.takes])
            bound = {"prob": 1.0, "unit": 1.0, "sym": 1.0}.get(domain, max(value.bound + 1.0, 1.0))
            squares = "{0} * {0}" in text or "square" in text
            value = self._guard(text, value, domain, value.bound**2 if squares else bound)
        return value

    def _guard(self, text: str, value: Value, domain: str, bound: float) -> Value:
        plan = Plan(value.shape, dtype=value.dtype, domain=domain, bound=bound, exact=False)
        made = self._value(plan, role=value.role)
        self.steps.append(Step(GUARD, (value,), (made,), text.format(token(value))))
        return made

    def _write(self, op: Op, operands: tuple[Value, ...], plan: Plan) -> tuple[Value, ...]:
        first = operands[0]
        bound = plan.bound if plan.bound is not None else op.bound(first.bound) if op.bound else first.bound
        exact = plan.exact if plan.exact is not None else op.exact and all(value.exact for value in operands)
        told = replace(
            plan,
            dtype=plan.dtype or first.dtype,
            domain=plan.domain or op.gives or (first.domain if op.exact else "real"),
            bound=min(bound, 1e6),
            exact=exact,
        )
        count = int(plan.arguments.get("parts", 1))
        outs = tuple(self._value(told, role=op.noun or "x") for _ in range(count))
        step = self._spelled(op, operands, outs, plan)
        self.steps.append(step)
        return outs

    def _spelled(self, op: Op, operands: tuple[Value, ...], outs: tuple[Value, ...], plan: Plan) -> Step:
        names = [token(value) for value in operands]
        layered = self.module and op.layer is not None and plan.layer is not None
        if layered and (not op.spellings or self.rng.random() < 0.8):
            called = str(plan.arguments["called"]).format(*names) if "called" in plan.arguments else ", ".join(names)
            suffix = str(plan.arguments.get("suffix", ""))
            return Step(op, operands, outs, f"\x03({called}){suffix}", plan.layer)
        weights = tuple(self.weight(wanted) for wanted in plan.weights)
        pool = [text for text in op.spellings if self._flavoured(text)] or list(op.spellings)
        if self.rng.random() < 0.25:
            pool = list(op.spellings)
        if not pool:
            raise DeadEnd(op.name)
        text = self.rng.choice(pool)
        told = {key: _told(key, given) for key, given in plan.arguments.items()}
        told["w"] = ", ".join(map(token, weights))
        written = text.format(*names, **told)
        more = [given for given in (*plan.arguments.values(), *weights) if isinstance(given, Value)]
        return Step(op, tuple(value for value in (*operands, *more) if token(value) in written), outs, written)

    def _flavoured(self, text: str) -> bool:
        return text.startswith("{0}.") if self.flavour == "method" else text.startswith(self.flavour)


def _told(key: str, given: Any) -> Any:
    """Operands, float constants and single dimensions stay marked until the text is written; the rest is literal."""
    if isinstance(given, Value):
        return token(given)
    if key == "dim" and re.fullmatch(r"-?\d+", str(given)):
        return f"\x06{given}\x07"
    numeric = key in CONSTANTS and isinstance(given, str) and not given.startswith("'")
    return f"\x04{key}={given}\x05" if numeric else given


CONSTANTS = ("c", "low", "high", "negative_slope", "alpha", "beta", "exponent", "lambd", "a")
"""Arguments that an author may turn into a named constant or a constructor argument."""


def _too_large(shape: Shape, most: int) -> bool:
    count = 1
    for size in shape:
        count *= size
    return count > most or any(size < 1 for size in shape)


GUARD = Op("guard", "pointwise", lambda builder, op, operands: None)
"""Steps that only keep a value in range; they do not count as depth."""
