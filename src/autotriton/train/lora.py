"""Adapted layers as one function each: the same numbers as peft's, with less memory traffic.

peft copies a layer's input to the adapter's 32 bits, autocast copies it back, and the adapter's output is scaled and
added by passes of its own: a fifth of a step of a 1.5B model (`benchmarks/sft_step.py`). Here the input is read
as it is, and both small products are added by the matrix multiplication that makes them.
"""

from __future__ import annotations

import functools
import importlib
from types import MethodType
from typing import Any


def fuse(model: Any) -> int:
    """Gives every adapted linear layer of a peft model the fused forward; how many there were."""
    layer: Any = importlib.import_module("peft.tuners.lora").Linear
    fused = [module for module in model.modules() if type(module) is layer and _plain(module)]
    for module in fused:
        module.forward = MethodType(_forward, module)
    return len(fused)


def _plain(module: Any) -> bool:
    """An ordinary adapter over an ordinary layer: nothing that changes what is computed."""
    torch: Any = importlib.import_module("torch")
    names = module.active_adapters
    return (
        type(module.get_base_layer()) is torch.nn.Linear
        and len(names) == 1
        and isinstance(module.lora_dropout[names[0]], torch.nn.Identity)
        and not module.lora_bias[names[0]]
        and names[0] not in module.lora_variant
    )


def _forward(self: Any, x: Any, *args: Any, **more: Any) -> Any:
    names = self.active_adapters
    if self.disable_adapters or self.merged or len(names) != 1 or args or more:
        return type(self).forward(self, x, *args, **more)
    base, name = self.get_base_layer(), names[0]
    return _function().apply(
        x, base.weight, base.bias, self.lora_A[name].weight, self.lora_B[name].weight, self.scaling[name]
    )


@functools.cache
def _function() -> Any:
    """Made once torch is wanted."""
    torch: Any = importlib.import_module("torch")

    class Adapted(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, down: Any, up: Any, scale: float) -> Any:
            ctx.types = x.dtype, down.dtype, up.dtype
            rows = x.reshape(-1, x.shape[-1]).to(weight.dtype)
            down, up = down.to(weight.dtype), (up * scale).to(weight.dtype)
            with torch.autocast(x.device.type, enabled=False):
                narrow = rows @ down.T
                out = torch.nn.functional.linear(rows, weight, bias).addmm_(narrow, up.T)
            ctx.save_for_backward(rows, narrow, weight, down, up)
            ctx.scale = scale
            return out.reshape(*x.shape[:-1], -1)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            rows, narrow, weight, down, up = ctx.saved_tensors
            x_type, down_type, up_type = ctx.types
            shape = (*grad.shape[:-1], weight.shape[1])
            grad = grad.reshape(-1, grad.shape[-1]).to(weight.dtype)
            grad_narrow = grad @ up
            grad_down = (grad_narrow.T @ rows).to(down_type)
            grad_up = (grad.T @ narrow).to(up_type) * ctx.scale
            grad_x = (grad @ weight).addmm_(grad_narrow, down).reshape(shape).to(x_type)
            return grad_x, None, None, grad_down, grad_up, None

    return Adapted
