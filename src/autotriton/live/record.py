"""What is known about an optimized module: everything but the module itself. Can be pickled and copied."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from autotriton.live.calls import CallSpec
from autotriton.live.guards import TensorKind
from autotriton.live.outlines import Outline
from autotriton.live.watching import Layer
from autotriton.types import Candidate, Task, Verdict


@dataclass(frozen=True)
class Optimized:
    """A verified kernel for a live module, and what it was verified for."""

    task: Task
    candidate: Candidate
    verdict: Verdict
    call: CallSpec
    outline: Outline
    """Of what the module returns."""
    inputs: tuple[TensorKind, ...]
    state: tuple[TensorKind, ...]
    """Parameters, buffers and tensor attributes, by name."""
    ties: tuple[tuple[str, str], ...]
    """Pairs of names of one and the same tensor."""
    structure: dict[str, Layer]
    ranges: dict[str, tuple[int, int | None]]
    """Leading sizes the kernel may be given, by symbol; empty where they are fixed."""
    constants: dict[str, Tensor]
    differentiable: tuple[bool, ...]
    """Which results have gradients."""
    changing: tuple[str, ...]
    """Buffers forward changes."""
    in_place: bool
    """Forward changes its inputs, or returns memory of theirs or of the module: no gradients through the kernel."""

    @property
    def title(self) -> str:
        return self.task.id

    @property
    def mode(self) -> str:
        """In words, where it matters."""
        return (
            f", {self.task.mode} mode" if any(layer.training is not None for layer in self.structure.values()) else ""
        )

    @property
    def shapes(self) -> str:
        """The inputs in words: `x float32 (*, 64)`."""
        return ", ".join(
            f"{kind.name} {str(kind.dtype).removeprefix('torch.')} "
            f"({', '.join('*' if kind.symbol and not axis else str(size) for axis, size in enumerate(kind.shape))})"
            for kind in self.inputs
        )
