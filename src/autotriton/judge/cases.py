"""The inputs a candidate is tried on: plain draws of the task, and the same draws bent into other distributions.

Deterministic from a secret seed. Must stay true: bending keeps dtype, shape, strides, device and whatever structure
`get_inputs` gives its tensors, so that a kernel right for the task's own inputs is not refuted by foreign ones.
Covers: discrete, integer-valued, constant, probability, sorted, symmetric, positive-diagonal and zero-patterned
tensors, and references that check their inputs' range. Does not cover: relations between inputs (lengths and padding).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autotriton.judge.program import Inputs, Program, clone, duplicate
from autotriton.judge.trace import Trace

DRAW = "draw"
SAMPLE = 1 << 16
"""Elements looked at before a whole tensor is."""
# Ops that check the range of their floating inputs; on CUDA the check is an assertion that ends the process.
_CHECKED = ("binary_cross_entropy.", "bernoulli", "multinomial", "poisson", "binomial")
_INDEXING = ("index", "gather", "embedding", "scatter", "take")


@dataclass(frozen=True)
class CaseSpec:
    """One case: what to draw and how to bend it. `draw` is the task's own distribution."""

    name: str
    seed: int
    distribution: str = DRAW

    @property
    def in_domain(self) -> bool:
        return self.distribution == DRAW


@dataclass(frozen=True)
class Shape:
    """What is special about one floating input, judged from two draws."""

    fixed: bool = False
    """Discrete, constant, probabilities or overlapping memory: never bent."""
    scale_only: bool = False
    """Sorted, or symmetric with a positive diagonal: a positive factor keeps that, nothing else does."""
    symmetric: bool = False
    zeros: bool = False
    """Some elements are zero in every draw."""


def plan(seed: int, count: int) -> list[CaseSpec]:
    """`count` cases: two plain draws, then each distribution once, then plain draws again."""
    kinds = [DRAW, DRAW, *BENDS]
    kinds += [DRAW] * (count - len(kinds))
    specs, draws = [], 0
    for index, kind in enumerate(kinds[:count]):
        draws += kind == DRAW
        name = f"{DRAW}#{draws}" if kind == DRAW else kind
        specs.append(CaseSpec(name, derive(seed, index), kind))
    return specs


def derive(seed: int, *path: object) -> int:
    """Another seed out of a secret one; 63 bits, so that every generator takes it."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def make(program: Program, spec: CaseSpec) -> Inputs | None:
    """The inputs of one case; None where the distribution would change nothing or leave the task's domain."""
    drawn = program.draw(spec.seed)
    if spec.in_domain:
        return drawn
    shapes = _shapes(program)
    leaves = drawn.leaves()
    if shapes is None or len(shapes) != len(leaves) or all(shape is None or shape.fixed for shape in shapes):
        return None
    by_memory = {_key(leaf): shape for leaf, shape in zip(leaves, shapes, strict=True) if isinstance(leaf, Tensor)}
    bender = _Bender(BENDS[spec.distribution], spec.distribution, torch.device(program.device), spec.seed)
    bent = drawn.map(lambda tensor: bender(tensor, by_memory.get(_key(tensor))))
    return bent if bender.changed else None


def shape_of(one: Tensor, two: Tensor) -> Shape:
    """What two draws of one floating input have in common."""
    if one.shape != two.shape or one.numel() == 0 or _overlaps(one) or torch.equal(one, two):
        return Shape(fixed=True)
    if _discrete(one, two) or all(_probabilities(tensor) for tensor in (one, two)):
        return Shape(fixed=True)
    symmetric = all(_symmetric(tensor) for tensor in (one, two))
    positive = symmetric and all(bool((tensor.diagonal(dim1=-2, dim2=-1) > 0).all()) for tensor in (one, two))
    ordered = all(_sorted(tensor) for tensor in (one, two))
    return Shape(scale_only=positive or ordered, symmetric=symmetric, zeros=bool(((one == 0) & (two == 0)).any()))


def _sign_mixed(x: Tensor, generator: torch.Generator) -> Tensor:
    coins = torch.randint(0, 2, x.shape, generator=generator, device=x.device, dtype=torch.int8)
    return torch.where(coins.bool(), x.abs(), -x.abs())


def _wide(x: Tensor, generator: torch.Generator) -> Tensor:
    """Largest magnitude about 40 (20 in fp16), where exp and squares of it still fit."""
    largest = float(torch.nan_to_num(x, posinf=0.0, neginf=0.0).abs().max())
    return x * ((20.0 if x.dtype is torch.float16 else 40.0) / largest) if largest else x


def _spikes(x: Tensor, generator: torch.Generator) -> Tensor:
    """One element in a hundred, and at least one, becomes 128 or -128, beyond what a naive exp survives."""
    dice = torch.rand(x.shape, generator=generator, device=x.device)
    dice = torch.where(x == 0, dice + 1.0, dice).contiguous()  # a zero may belong to a pattern that is kept
    hit = dice < 0.01
    hit.reshape(-1)[int(dice.argmin())] = True
    spike = torch.where(dice.mul(1e4).remainder(1.0) < 0.5, -128.0, 128.0).to(x.dtype)
    return torch.where(hit, spike, x)


def _ramp(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.linspace(-4.0, 4.0, x.numel(), device=x.device).reshape(x.shape).to(x.dtype)


def _zeros(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.zeros_like(x)


def _one_hot(x: Tensor, generator: torch.Generator) -> Tensor:
    if x.dim() == 0:
        return torch.ones_like(x)
    place = torch.randint(0, x.shape[-1], (*x.shape[:-1], 1), generator=generator, device=x.device)
    return torch.zeros_like(x).scatter_(-1, place, 1.0)


Bend = Callable[[Tensor, torch.Generator], Tensor]
BENDS: dict[str, Bend] = {
    "sign-mixed": _sign_mixed,
    "wide": _wide,
    "spikes": _spikes,
    "ramp": _ramp,
    "zeros": _zeros,
    "one-hot": _one_hot,
}


class _Bender:
    """Applies one distribution to each tensor, within what its shape allows."""

    def __init__(self, bend: Bend, name: str, device: torch.device, seed: int) -> None:
        self.bend = bend
        self.scales = name == "wide"
        self.generator = torch.Generator(device=device).manual_seed(derive(seed, name))
        self.changed = False

    def __call__(self, tensor: Tensor, shape: Shape | None) -> Tensor:
        if shape is None or shape.fixed or (shape.scale_only and not self.scales):
            return tensor
        new = self.bend(tensor, self.generator)
        if shape.symmetric:
            new = torch.where(new != tensor, new, new.mT)  # a spike in either half counts
            new = new.tril() + new.tril(-1).mT
        if shape.zeros:
            new = torch.where(tensor == 0, tensor, new)
        result = clone(tensor).copy_(new)
        self.changed |= not torch.equal(result, tensor)
        return result


_KNOWN: WeakKeyDictionary[Program, list[Shape | None] | None] = WeakKeyDictionary()


def _shapes(program: Program) -> list[Shape | None] | None:
    """One entry per input leaf (None: not a floating tensor); None altogether where only draws are safe."""
    if program not in _KNOWN:
        _KNOWN[program] = _examine(program)
    return _KNOWN[program]


def _examine(program: Program) -> list[Shape | None] | None:
    one, two = program.draw(11), program.draw(12)
    pairs = list(zip(one.leaves(), two.leaves(), strict=False))
    if len(one.leaves()) != len(two.leaves()) or not any(_floating(leaf) for leaf, _ in pairs) or _checks(program, one):
        return None
    return [
        shape_of(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point() else None
        for a, b in pairs
    ]


def _checks(program: Program, inputs: Inputs) -> bool:
    """The reference asserts a range, or makes indices out of floats."""
    trace, model, given = Trace(), duplicate(program.build(0)), inputs.clone()
    with trace:
        program.run(model, given)
    names = [name.removeprefix("aten.") for name in trace.ops]
    if any(name.startswith(_CHECKED) for name in names):
        return True
    return trace.truncates and any(name.startswith(_INDEXING) for name in names)


def _floating(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


def _key(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _overlaps(tensor: Tensor) -> bool:
    """Two elements share memory, as after `expand`."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _discrete(one: Tensor, two: Tensor) -> bool:
    """At most eight values in all (masks, labels), or only whole numbers (classes, lengths)."""
    start = torch.cat([one.reshape(-1)[:SAMPLE], two.reshape(-1)[:SAMPLE]])
    few, whole = torch.unique(start).numel() <= min(8, one.numel()), _whole(start)
    if not few and not whole:
        return False
    everything = torch.cat([one.reshape(-1), two.reshape(-1)])
    return (few and torch.unique(everything).numel() <= min(8, one.numel())) or (whole and _whole(everything))


def _whole(tensor: Tensor) -> bool:
    return bool((tensor == tensor.round()).all())


def _probabilities(tensor: Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2 or not bool((tensor >= 0).all()):
        return False
    near = 4 * torch.finfo(tensor.dtype).eps * tensor.shape[-1] ** 0.5
    return bool((tensor.to(torch.float64).sum(-1) - 1).abs().max() <= near)


def _symmetric(tensor: Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    return torch.equal(tensor, tensor.transpose(-1, -2))


def _sorted(tensor: Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 3 or not bool((tensor.reshape(-1)[:3].diff() >= 0).all()):
        return False
    return bool((tensor.diff(dim=-1) >= 0).all())
