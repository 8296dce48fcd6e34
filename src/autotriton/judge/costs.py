"""What the reference's operators cost: FLOPs and bytes, op by op and for one whole forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from autotriton.judge.modes import EagerMode
from autotriton.judge.program import Inputs, Model, Program, duplicate, flatten, state
from autotriton.judge.trace import FREE, MOVES, is_view, op_name, tensors_of


@dataclass(frozen=True)
class OpCost:
    flops: int = 0
    bytes: int = 0

    def __add__(self, other: OpCost) -> OpCost:
        return OpCost(self.flops + other.flops, self.bytes + other.bytes)


@dataclass(frozen=True)
class Cost:
    """What the reference does: `bytes` must move at least once, `total` is what its ops move one by one."""

    flops: int
    bytes: int
    total: OpCost
    ops: dict[str, OpCost]


def cost(program: Program, model: Model, inputs: Inputs) -> Cost:
    """FLOPs and bytes of one forward pass, for the roofline and for shares of work."""
    meter, copy, given = Meter(), duplicate(model), inputs.clone()
    with meter:
        result = program.run(copy, given)
    held = {tensor.data_ptr(): tensor for tensor in state(copy).values()}
    tensors = [*tensors_of(inputs.leaves()), *tensors_of(flatten(result)[0]), *held.values()]
    total = sum(meter.ops.values(), OpCost())
    return Cost(total.flops, sum(map(_bytes, tensors)), total, dict(meter.ops))


def op_cost(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> OpCost:
    """FLOPs and bytes one aten op moves; views and allocations are free."""
    if is_view(func) or op_name(func) in FREE:
        return OpCost()
    read = tensors_of(pytree.tree_leaves((args, kwargs)))
    written = tensors_of(pytree.tree_leaves(out))
    moved = sum(map(_bytes, [*read, *written]))
    return OpCost(_flops(func, args, kwargs, out, read, written), moved)


class Meter(EagerMode):  # type: ignore[no-untyped-call]
    """Adds up `op_cost` by op."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: dict[str, OpCost] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        spent = op_cost(func, args, kwargs, out)
        if spent != OpCost():
            self.ops[str(func)] = self.ops.get(str(func), OpCost()) + spent
        return out


def _flops(func: Any, args: Any, kwargs: Any, out: Any, read: list[Tensor], written: list[Tensor]) -> int:
    name = op_name(func)
    formula = flop_registry.get(getattr(func, "overloadpacket", None))
    if formula is not None:
        try:
            return int(formula(*args, **kwargs, out_val=out))
        except (AssertionError, AttributeError, IndexError, TypeError, ValueError):  # a call the formula does not know
            pass
    if "scaled_dot_product" in name:
        return 4 * read[0].numel() * int(read[1].shape[-2])
    return 0 if name in MOVES else max((tensor.numel() for tensor in [*read, *written]), default=0)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
