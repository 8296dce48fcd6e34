"""How large a task is, without making its tensors: bytes of inputs, outputs and weights, found on torch's meta device.

Runs in a throw-away reference process, as it executes the task's own source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from autotriton.errors import TaskError
from autotriton.judge.program import Program, flatten
from autotriton.types import Task


def needs(request: dict[str, Any]) -> dict[str, int | None]:
    """Bytes of inputs, outputs and weights; None for what cannot be told without running the task for real."""
    found: dict[str, int | None] = {"inputs": None, "outputs": None, "weights": None}
    try:
        program = Program(Task.model_validate(request["task"]), "meta")
        inputs = program.draw(0)
        found["inputs"] = _bytes(inputs.leaves())
        model = program.build(0)
        if isinstance(model, torch.nn.Module):
            found["weights"] = _bytes([*model.parameters(), *model.buffers()])
        found["outputs"] = _bytes(flatten(program.run(model, inputs))[0])
    except TaskError:
        pass  # values that decide about shapes, operators without a meta kernel: what is known by now is the answer
    return found


def _bytes(leaves: Iterable[Any]) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
