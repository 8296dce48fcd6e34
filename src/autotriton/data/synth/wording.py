"""Words about a program: what its docstring says, and what a function is called."""

from __future__ import annotations

from collections.abc import Sequence

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op

_SKIPPED = ("guard", "helper", "contiguous")


def describe(ops: Sequence[Op]) -> str:
    """One true sentence: the operators in order."""
    names = [op.name.replace("_", " ") for op in ops if op.name not in _SKIPPED]
    if not names:
        return "A small tensor program."
    if len(names) == 1:
        return f"Computes {names[0]}."
    return f"Computes {', '.join(names[:-1])}, then {names[-1]}."


def function_name(builder: Builder) -> str:
    names = [step.op.name for step in builder.steps if step.op.name not in _SKIPPED and step.op.family != "view"]
    picked = (names or ["tensor_program"])[:3]
    return builder.rng.choice(("", "", "fused_", "compute_")) + "_".join(picked)
