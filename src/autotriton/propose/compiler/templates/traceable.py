"""Parts of torch that read a tensor's value in Python, in a form that `torch.export` can follow.

Runs in the capturing child process only. Must stay true: for inputs torch accepts, the same values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch.nn.modules.batchnorm import _BatchNorm

_BATCH_NORM = _BatchNorm.forward
_INSTANCE_NORM = F.instance_norm


@contextmanager
def traceable() -> Iterator[None]:
    with (
        mock.patch.object(F, "gaussian_nll_loss", _gaussian_nll_loss),
        mock.patch.object(_BatchNorm, "forward", _batch_norm),
        mock.patch.object(F, "instance_norm", _instance_norm),
    ):
        yield


@contextmanager
def recurrent_shapes() -> Iterator[None]:
    """Recurrent nets that stay whole: torch finds the shapes of their results by unrolling every step of every layer,
    which took minutes for 512 steps. Only while they do stay whole: what is taken apart needs torch's own form.
    """
    with ExitStack() as stack:
        for operator in _RECURRENT:
            shapes = _lstm_shapes if operator is torch.ops.aten.lstm.input else _recurrent_shapes
            kernels = {key: shapes for key in _KEYS if key in operator.py_kernels}
            stack.enter_context(mock.patch.dict(operator.py_kernels, kernels))
            stack.enter_context(mock.patch.object(operator, "_dispatch_cache", {}))
            stack.enter_context(mock.patch.dict(decomposition_table, {operator: shapes}))
        yield


_RECURRENT = tuple(getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))
_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


def _recurrent_shapes(x: Tensor, hidden: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *_, bidirectional, batch_first = rest
    width = hidden.shape[-1] * (2 if bidirectional else 1)
    steps = x.transpose(0, 1) if batch_first else x
    output = x.new_empty(*steps.shape[:-1], width)
    return output.transpose(0, 1) if batch_first else output, torch.empty_like(hidden)


def _lstm_shapes(x: Tensor, state: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    output, hidden = _recurrent_shapes(x, state[0], *rest)
    return output, hidden, torch.empty_like(state[1])


def _gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Without the check that no variance is negative, for which torch reads them all."""
    if not isinstance(var, Tensor):
        var = torch.full_like(input, var)
    if var.dim() == input.dim() - 1:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _batch_norm(self: Any, input: Tensor) -> Tensor:
    """With `momentum=None` torch reads how many batches there were; here that number stays a tensor."""
    if self.momentum is not None or not self.training or self.running_mean is None:
        return _BATCH_NORM(self, input)
    self._check_input_dim(input)
    self.num_batches_tracked.add_(1)
    share = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
    dims = [d for d in range(input.dim()) if d != 1]
    var, mean = torch.var_mean(input, dim=dims, correction=1)
    self.running_mean.copy_(share * mean + (1.0 - share) * self.running_mean)
    self.running_var.copy_(share * var + (1.0 - share) * self.running_var)
    return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)


def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Along the axes it reduces. Torch lays images and channels together to ask batch_norm, and what follows would have
    to take that shape apart again.
    """
    # One element alone has no spread: torch says so.
    alone = math.prod(input.shape[2:]) == 1
    if alone or running_mean is not None or running_var is not None or not use_input_stats:
        return _INSTANCE_NORM(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    half = input.dtype in (torch.float16, torch.bfloat16)
    x = input.float() if half else input
    var, mean = torch.var_mean(x, dim=list(range(2, input.dim())), correction=0, keepdim=True)
    result = (x - mean) * torch.rsqrt(var + eps)
    channels = (1, -1, *(1,) * (input.dim() - 2))
    if weight is not None:
        result = result * weight.reshape(channels)
    if bias is not None:
        result = result + bias.reshape(channels)
    return result.to(input.dtype) if half else result
