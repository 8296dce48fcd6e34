"""Training with a kernel: forward by the kernel, backward by running the original module again.

Gradients are therefore those of the original. Buffers are left as the kernel's forward left them: the second run works
on copies of what they were before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.live.calls import CallSpec, results_of
from autotriton.live.record import Optimized
from autotriton.live.state import places

Kernel = Callable[..., tuple[Tensor, ...]]


def differentiable(
    module: nn.Module, optimized: Optimized, kernel: Kernel, tensors: list[Tensor]
) -> tuple[Tensor, ...]:
    """The kernel's results, connected to the inputs and to the module's parameters."""
    parameters = dict(module.named_parameters())
    held = places(module)
    before = {name: held[name].tensor.detach().clone() for name in optimized.changing}
    recompute = _Recomputation(module, optimized.call, tuple(parameters), before, len(tensors))
    results = _Kernel.apply(kernel, recompute, optimized.differentiable, *tensors, *parameters.values())  # type: ignore[no-untyped-call]
    return tuple(results)


class _Recomputation:
    """The original module as a function of its inputs and parameters, at the state it had before forward."""

    def __init__(
        self, module: nn.Module, call: CallSpec, names: tuple[str, ...], before: dict[str, Tensor], inputs: int
    ) -> None:
        self.module, self.call, self.names, self.before, self.inputs = module, call, names, before, inputs

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        state = dict(zip(self.names, tensors[self.inputs :], strict=True))
        state |= {name: value.clone() for name, value in self.before.items()}
        args, kwargs = self.call.rebuild(tensors[: self.inputs])
        returned = torch.func.functional_call(self.module, state, args, kwargs)
        return results_of(returned, type(self.module).__name__)[1]


class _Kernel(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Kernel, recompute: _Recomputation, differentiable: tuple[bool, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.recompute = recompute
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)  # a parameter that only feeds unused results gets no gradient, not zeros
        results = kernel(*tensors[: recompute.inputs])
        ctx.mark_non_differentiable(*(r for r, connected in zip(results, differentiable, strict=True) if not connected))
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        needed = ctx.needs_input_grad[3:]
        again = torch.is_grad_enabled()  # somebody wants to differentiate the gradient itself
        tensors = list(ctx.saved_tensors)
        if not again:
            tensors = [t.detach().requires_grad_() if need else t for t, need in zip(tensors, needed, strict=True)]
        with torch.enable_grad():
            results = ctx.recompute(tensors)
        pairs = [(r, g) for r, g in zip(results, gradients, strict=True) if g is not None and r.requires_grad]
        wanted = [tensor for tensor, need in zip(tensors, needed, strict=True) if need]
        found = iter(
            torch.autograd.grad(
                [result for result, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=again
            )
            if pairs and wanted
            else [None] * len(wanted)
        )
        return None, None, None, *(next(found) if need else None for need in needed)
