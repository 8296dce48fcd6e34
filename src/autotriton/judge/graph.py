"""The operator graph of one forward pass, recorded as it runs: robust where tracing compilers refuse.

Plain data comes out, so that a process without torch can hash and compare graphs. Must stay true: recording changes
nothing. Covers: views, in-place operators, several outputs, data-dependent control flow (the path that was taken).
Does not cover: writes through a view are not seen by its base, and values that left torch (`.item()`) are constants.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from autotriton.judge.costs import op_cost
from autotriton.judge.modes import EagerMode
from autotriton.judge.program import Inputs, Model, Program, duplicate, flatten
from autotriton.judge.trace import op_name

MOST_NODES = 4096
"""A longer program (an unrolled recurrence) is cut here, and says so."""
LEAF = "leaf"


class GraphTrace(EagerMode):  # type: ignore[no-untyped-call]
    """Nodes in the order they ran. A node is `[name, operands, constants, outputs, flops]`."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[list[Any]] = []
        self.cut = False
        self._made: dict[int, tuple[int, int]] = {}
        self._kept: list[Tensor] = []

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """Which node's which output a tensor is; one nobody made is a leaf."""
        if id(tensor) not in self._made:
            self.nodes.append([LEAF, [], "", [_described(tensor)], 0])
            self._remember(tensor, len(self.nodes) - 1, 0)
        return self._made[id(tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if len(self.nodes) >= MOST_NODES:
            self.cut = True
            return out
        leaves = pytree.tree_leaves((args, kwargs))
        operands = [list(self.place(leaf)) for leaf in leaves if isinstance(leaf, Tensor)]
        constants = ",".join(_constant(leaf) for leaf in leaves if not isinstance(leaf, Tensor))
        made = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, Tensor)]
        flops = op_cost(func, args, kwargs, out).flops
        self.nodes.append([op_name(func), operands, constants, [_described(tensor) for tensor in made], flops])
        for number, tensor in enumerate(made):
            self._remember(tensor, len(self.nodes) - 1, number)
        return out

    def _remember(self, tensor: Tensor, node: int, number: int) -> None:
        self._made[id(tensor)] = (node, number)
        self._kept.append(tensor)  # an id is only unique while its owner lives


def graph_of(program: Program, model: Model, inputs: Inputs, *, spent: bool = False) -> dict[str, Any]:
    """Nodes and results of one forward pass, as JSON values. `spent`: model and inputs are not needed afterwards."""
    trace = GraphTrace()
    taken, given = (model, inputs) if spent else (duplicate(model), inputs.clone())
    buffers = list(taken.buffers()) if isinstance(taken, nn.Module) else []
    versions = [buffer._version for buffer in buffers]
    with trace:
        result = program.run(taken, given)
    outputs = [list(trace.place(leaf)) for leaf in flatten(result)[0] if isinstance(leaf, Tensor)]
    changed = [list(trace.place(held)) for held, old in zip(buffers, versions, strict=True) if held._version != old]
    return {"nodes": trace.nodes, "outputs": outputs, "changed": changed, "cut": trace.cut}


def _described(tensor: Tensor) -> list[Any]:
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def _constant(leaf: object) -> str:
    if isinstance(leaf, float):
        return f"{leaf:.6g}"
    if isinstance(leaf, torch.device | torch.Generator):
        return ""  # where something runs is not what it computes
    return str(leaf).removeprefix("torch.")
