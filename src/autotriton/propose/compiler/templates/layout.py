"""The text of one piece: kernel signature, docstring, body; wrapper with sizes, allocation, launch."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import torch

from autotriton.propose.compiler.templates.axes import Dims
from autotriton.propose.compiler.templates.body import Operands
from autotriton.propose.compiler.templates.piece import Piece, Setting
from autotriton.propose.compiler.templates.sizes import Sizes

WIDTH = 116


class Draft:
    """Collects a piece's parameters while its body is written."""

    def __init__(
        self,
        name: str,
        formula: str,
        operands: Operands,
        sizes: Sizes,
        outputs: Sequence[tuple[str, torch.Tensor, Dims]],
    ) -> None:
        self.name, self.formula, self.operands, self.sizes, self.outputs = name, formula, operands, sizes, outputs
        self._sizes: list[tuple[str, str]] = []
        self._constants: list[tuple[str, str]] = []
        self._numbers: list[str] = []
        self._strides: list[tuple[str, str]] = []

    def size(self, name: str, text: str) -> None:
        """A size the wrapper computes under a name, for the grid and for the kernel."""
        self._sizes.append((name, text))

    def constants(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._constants += pairs

    def more(self, numbers: Sequence[str], strides: Sequence[tuple[str, str]]) -> None:
        self._numbers += numbers
        self._strides += strides

    def kernel(
        self,
        lines: Sequence[str],
        blocks: Sequence[str],
        suffix: str = "",
        pointers: Sequence[str] = (),
        counts: Sequence[str] = (),
    ) -> str:
        """The jit function with the parameters collected so far; `pointers` replaces the outputs' names, `counts` are
        numbers of this kernel alone.
        """
        tensors = [name for name, _, _ in self.operands.values]
        out = list(pointers) or [name for name, _, _ in self.outputs]
        parameters = [
            *(f"{name}_ptr" for name in [*tensors, *out]),
            *counts,
            *self._numbers,
            *(name for name, _ in [*self._sizes, *self._strides]),
            *(f"{name}: tl.constexpr" for name in [*(name for name, _ in self._constants), *blocks]),
        ]
        return jit(f"{self.name}{suffix}_kernel", parameters, self.formula, lines)

    def arguments(self, outputs: Sequence[str] = ()) -> list[str]:
        tensors = [name for name, _, _ in self.operands.values]
        out = list(outputs) or [name for name, _, _ in self.outputs]
        return [*tensors, *out, *self._numbers, *(n for n, _ in self._sizes), *(text for _, text in self._strides)]

    def constant_arguments(self) -> list[str]:
        return [f"{name}={text}" for name, text in self._constants]

    def size_lines(self) -> list[str]:
        return [f"{name} = {text}" for name, text in self._sizes]

    def allocations(self) -> list[str]:
        return [f"{name} = {self.sizes.empty(value, dims)}" for name, value, dims in self.outputs]

    def returned(self) -> str:
        return ", ".join(name for name, _, _ in self.outputs)

    def wrapper(self, lines: Sequence[str]) -> str:
        parameters = [*(name for name, _, _ in self.operands.values), *self._numbers]
        return function(self.name, parameters, [*lines, f"return {self.returned()}"])

    def piece(self, body: Sequence[str], blocks: Sequence[str], grid: str, settings: tuple[Setting, ...]) -> Piece:
        """One kernel, one launch."""
        launch = call(f"{self.name}_kernel[grid]", [*self.arguments(), *self.constant_arguments(), "**tiles"])
        lines = [*self.size_lines(), *self.allocations(), f'tiles = TILES["{self.name}"]', f"grid = {grid}", launch]
        text = f"{self.kernel(body, blocks)}\n\n\n{self.wrapper(lines)}"
        return Piece(self.name, text, (*self.operands.nodes, *self.operands.numbers()), settings)


def jit(name: str, parameters: Sequence[str], docstring: str, lines: Sequence[str]) -> str:
    return "@triton.jit\n" + function(name, parameters, [f'"""{docstring}"""', *lines])


def function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    head = f"def {name}({', '.join(parameters)}):"
    if len(head) > WIDTH:
        head = f"def {name}(\n{_wrapped(parameters, WIDTH - 4)}\n):"
    return head + "\n" + textwrap.indent("\n".join(lines), "    ")


def call(target: str, arguments: Sequence[str]) -> str:
    line = f"{target}({', '.join(arguments)})"
    return line if len(line) <= WIDTH - 4 else f"{target}(\n{_wrapped(arguments, WIDTH - 8)}\n)"


def _wrapped(items: Sequence[str], width: int) -> str:
    """Items in lines of at most this width, never broken inside one."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{item}, "
    return textwrap.indent("\n".join(line.rstrip() for line in lines), "    ")
