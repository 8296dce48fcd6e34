"""What convolutions, pools and norms of channels share: one number or one per dimension, activations, kernels' texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import Parameter, indented
from autotriton.data.wrappers.steps import STEPS, Chain, chain

LETTERS = {1: "l", 2: "hw"}
"""What sizes end in: `out_h`, `out_w`; one dimension has `out_l`."""
_USUAL = ("relu", "leaky_relu", "sigmoid", "gelu", "silu", "tanh", "selu")
_OTHERS = ("elu", "mish", "hardswish", "softplus", "relu6", "hardsigmoid", "hardtanh", "logsigmoid", "softsign", "celu")


def activation(draw: Random, taken: frozenset[str]) -> Chain:
    """One activation, in a few cases another step or two steps."""
    kind = draw.random()
    if kind < 0.12:
        return chain(draw, draw.choice((1, 2)), first=False, taken=taken)
    names = _USUAL if kind < 0.8 else _OTHERS
    fitting = [s for s in STEPS if s.name in names and not {scalar.name for scalar in s.scalars} & taken]
    return Chain((draw.choice(fitting),))


@dataclass(frozen=True)
class Window:
    """What slides over an input, one entry per dimension."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def out(self) -> tuple[int, ...]:
        """How many windows there are."""
        sides = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple(
            (size + 2 * pad - dil * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, pad, dil in sides
        )


def _fits(found: Window, inside: bool) -> bool:
    """There are several windows in every dimension. `inside`: padding is at most half a window, as pools ask."""
    half = all(2 * pad <= kernel for pad, kernel in zip(found.padding, found.kernel, strict=True))
    return min(found.out) > 1 and (half or not inside)


def window(
    draw: Random, rank: int, kernels: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *, inside: bool
) -> Window:
    """Sizes that fit together; more than half of them are equal in all dimensions."""
    sizes = range(7, 13) if rank == 2 else range(9, 60)

    def some(values: Sequence[int]) -> tuple[int, ...]:
        one = draw.choice(values)
        return (one,) * rank if draw.random() < 0.6 else tuple(draw.choice(values) for _ in range(rank))

    while True:
        size = tuple(draw.choice(sizes) for _ in range(rank))
        found = Window(size, some(kernels), some(strides), some((0, 0, 1, 1, 2)), some(dilations))
        if _fits(found, inside):
            return found


def per_dimension(draw: Random, name: str, values: tuple[int, ...], about: str, default: str | None) -> Parameter:
    """A number, or a tuple of one number per dimension. Equal ones are written either way."""
    alone = len(set(values)) == 1 and draw.random() < 0.6
    given = str(values[0]) if alone else f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"
    if default == str(values[0]) and alone and draw.random() < 0.7:
        given = ""
    optional = ", optional" if default == "None" else ""
    return Parameter(name, f"int or tuple{optional}", f"{about}; one number or one per dimension", default, given=given)


def unpacked(name: str, short: str, rank: int, instead: str = "") -> str:
    """The line that makes one number per dimension of an argument."""
    value = instead or name
    if rank == 1:
        return f"{short}_l = {value} if isinstance({value}, int) else {value}[0]"
    return f"{short}_h, {short}_w = ({value}, {value}) if isinstance({value}, int) else {value}"


def each(rank: int, *names: str) -> list[str]:
    """`out` becomes out_h and out_w."""
    return [f"{name}_{letter}" for name in names for letter in LETTERS[rank]]


def kernel_text(name: str, arguments: Sequence[Sequence[str]], lines: Sequence[str]) -> str:
    """Arguments in rows, as they belong together."""
    rows = "".join(f"    {', '.join(row)},\n" for row in arguments if row)
    return f"@triton.jit\ndef {name}_kernel(\n{rows}):\n{indented(lines)}\n"


def launched(name: str, grid: str, given: Sequence[Sequence[str]]) -> list[str]:
    return [f"{name}_kernel[{grid}](", *(f"    {', '.join(row)}," for row in given if row), ")"]


def constants(names: Sequence[str]) -> list[str]:
    return [f"{name}: tl.constexpr" for name in names]
