"""Lanes: the positions along all dimensions but one, which kernels that work along that one share out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Which dimension is scanned, and what the wrapper calls the sizes and strides."""

    sizes: tuple[str, ...]
    dim: int

    @property
    def length(self) -> str:
        return self.sizes[self.dim]

    def others(self) -> list[int]:
        return [d for d in range(len(self.sizes)) if d != self.dim]

    def lanes(self) -> str:
        return " * ".join(self.sizes[d] for d in self.others()) or "1"

    def strides(self, tensor: str) -> list[str]:
        return [f"{tensor}_stride_{d}" for d in range(len(self.sizes))]

    def indices(self) -> list[str]:
        """Index of each dimension, to broadcast against a tile of lanes by steps."""
        return ["steps[None, :]" if d == self.dim else f"i{d}[:, None]" for d in range(len(self.sizes))]

    def lane_indices(self) -> list[str]:
        """Statements that take the lane's number apart into one index per other dimension, last dimension first."""
        lines, rest = [], "lanes"
        for d in reversed(self.others()[1:]):
            lines.append(f"i{d} = {rest} % {self.sizes[d]}")
            rest = f"({rest} // {self.sizes[d]})"
        return [*lines, f"i{self.others()[0]} = {rest}"] if self.others() else []

    def lane_offset(self, tensor: str) -> str:
        terms = [f"i{d} * {tensor}_stride_{d}" for d in self.others()]
        return " + ".join(terms) or "lanes * 0"
