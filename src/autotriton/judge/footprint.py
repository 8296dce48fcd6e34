"""How much memory a task takes, found on torch's meta device, where nothing is allocated: inputs, outputs, peak.

From it follows what the judge reserves on a GPU before it opens a task there (`reserve`). docs/judging.md states the
bound; `reference.py` keeps it by holding one case at a time.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from autotriton.errors import TaskError
from autotriton.judge.modes import EagerMode
from autotriton.judge.program import Program, flatten, state
from autotriton.judge.trace import tensors_of
from autotriton.types import Task


@dataclass(frozen=True)
class Footprint:
    """None where something cannot be found without a device."""

    elements: int | None = None
    """Of inputs and outputs; of the inputs alone where the outputs are not known."""
    bytes: int | None = None
    """Of the inputs."""
    output_bytes: int | None = None
    peak_bytes: int | None = None
    """Of one forward pass: inputs, parameters, outputs and whatever is alive in between."""
    state_bytes: int = 0
    """Of parameters and buffers."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def footprint(task: Task) -> Footprint:
    """What one forward pass of the task takes, without making anything large if possible."""
    try:
        program = Program(task, "meta")
        inputs = program.draw(0)
    except TaskError:  # inputs that depend on their own values (`.item()`) cannot be drawn there
        return _inputs_only(task)
    given = tensors_of(inputs.leaves())
    elements, size = sum(tensor.numel() for tensor in given), sum(map(bytes_of, given))
    alive = Alive()
    try:
        model = program.build(0)
        with alive:
            outputs = tensors_of(flatten(program.run(model, inputs))[0])
    except TaskError:
        return Footprint(elements, size)
    elements += sum(tensor.numel() for tensor in outputs)
    held = sum(map(bytes_of, state(model).values()))
    return Footprint(elements, size, sum(map(bytes_of, outputs)), size + held + alive.peak, held)


def _inputs_only(task: Task) -> Footprint:
    try:
        given = tensors_of(Program(task, "cpu").draw(0).leaves())
    except TaskError:
        return Footprint()
    return Footprint(sum(tensor.numel() for tensor in given), sum(map(bytes_of, given)))


class Alive(EagerMode):  # type: ignore[no-untyped-call]
    """Counts the bytes that operators made and that something still refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._holders: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {tensor.untyped_storage()._cdata for tensor in tensors_of(pytree.tree_leaves((args, kwargs)))}
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_of(pytree.tree_leaves(out)):
            key = tensor.untyped_storage()._cdata
            if key in self._sizes or key not in given:  # a view of an input or a parameter was there before
                self._hold(key, tensor)
        self.peak = max(self.peak, self.now)
        return out

    def _hold(self, key: int, tensor: torch.Tensor) -> None:
        if not self._holders[key]:
            self._sizes[key] = tensor.untyped_storage().nbytes()
            self.now += self._sizes[key]
        self._holders[key] += 1
        weakref.finalize(tensor, self._release, key)

    def _release(self, key: int) -> None:
        self._holders[key] -= 1
        if not self._holders[key]:
            self.now -= self._sizes.pop(key)


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
