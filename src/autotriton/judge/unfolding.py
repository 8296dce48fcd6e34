"""What rounding costs inside one operator: attention as single operators, sums and products by their partial sums.

A sum of ordered terms (all negative ones, then the positive ones) is small where its partial sums are large. Which of
them are ever formed is up to a kernel: a tree over scattered lanes has none, a loop over rows has them all. So what a
plain loop in fp32 loses is part of what the reference's operator may lose.

Must stay true: with terms in no order this stays below what `tolerance.py` allows anyway, sqrt K roundoffs of the sum.
Does not cover: products inside convolutions, whose weights have no order; tensors too large to be looked at in one
go, whose tasks see plain draws only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from autotriton.judge.measure import CHUNK
from autotriton.judge.trace import MATMULS

_STEPS = 4096
"""A loop of more turns is one over blocks, or one of several."""
_SUMS = {"sum", "mean"}
_PIECES = 4
_SHORT = 256
"""Shorter products lose too little to be worth the time: up to 0.3 of what is allowed, in the worst order."""
_UNIT = 2.0**-24
"""Of accumulators: nobody has to sum in fp64, nor may anybody in less than fp32."""


@contextmanager
def without_fused_attention() -> Iterator[None]:
    """Attention is made of single operators in here."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def add_partial_sums(name: str, args: Any, kwargs: Any, out: Any, noise: Callable[[Tensor, float], Tensor]) -> None:
    """Add to the fp64 result of a sum or a product what rounding its partial sums to fp32 costs."""
    if name not in {*_SUMS, *MATMULS} or out.dtype is not torch.float64 or not 0 < out.numel() <= CHUNK:
        return
    if name in _SUMS and args[0].dtype is torch.float64 and 0 < args[0].numel() <= CHUNK:
        terms = _terms(args, kwargs)
        lost = strayed(terms).div_(terms.shape[-1] if name == "mean" else 1)
        out.add_(lost.view_as(out))
    elif name in MATMULS:
        left, right = args[MATMULS[name] : MATMULS[name] + 2]
        out.add_(_lost_in_product(left, right, noise), alpha=kwargs.get("alpha", 1))


def strayed(terms: Tensor) -> Tensor:
    """How far an fp32 accumulator that runs along the last axis is ever off.

    A rounded sum is a multiple of its last digit, so what adding a term loses depends on the term and on the sum's
    size, not on what was lost before: all turns of the loop can be looked at at once.
    """
    length = -(-terms.shape[-1] // _STEPS)
    if length > 1:
        padded = torch.nn.functional.pad(terms, (0, -terms.shape[-1] % length))
        terms = padded.reshape(*terms.shape[:-1], -1, length).sum(-1)
    before = (terms.cumsum(-1) - terms).float().double()
    exact = before.add_(terms)
    return (exact.float().double() - exact).cumsum(-1).abs().amax(-1).nan_to_num_(0.0, 0.0, 0.0)


def _terms(args: Any, kwargs: Any) -> Tensor:
    """What a call of `sum` or `mean` adds up, along the last axis, first things first."""
    terms: Tensor = args[0]
    if terms.dim() == 0:
        return terms.reshape(1)
    given = args[1] if len(args) > 1 else kwargs.get("dim")
    dims = sorted(dim % terms.dim() for dim in given or range(terms.dim()))
    kept = [dim for dim in range(terms.dim()) if dim not in dims]
    return terms.permute(*kept, *dims).flatten(len(kept))


def _lost_in_product(left: Tensor, right: Tensor, noise: Callable[[Tensor, float], Tensor]) -> Tensor:
    """Noise on the sums after each of a few pieces of the inner axis, as much as all the sums of that piece cost."""
    axis = max(right.dim() - 2, 0)
    length = left.shape[-1] // _PIECES
    if left.shape[-1] < _SHORT:
        return left.new_zeros(())
    total = lost = left.new_zeros(())
    for start in range(0, length * _PIECES, length):
        total = left.narrow(-1, start, length) @ right.narrow(axis, start, length) + total
        lost = noise(total.clone(), math.sqrt(length) * _UNIT / 2).sub_(total).add_(lost)
    return lost.nan_to_num_(0.0, 0.0, 0.0)
