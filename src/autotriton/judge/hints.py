"""Comparisons in words: where an error is, how much of the tensor it takes, and a guess at what went wrong.

Must stay true: nothing of the reference's values reaches the text, only kinds, places and sizes of errors.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from autotriton.judge.answers import Answer
from autotriton.judge.measure import CHUNK, Spread, measure, real
from autotriton.judge.program import Leaf
from autotriton.judge.tolerance import bounds


def hint(answer: Answer, got: Tensor, error: Spread) -> str:
    """A guess at what went wrong, for the person or model that wrote the kernel."""
    assert answer.oracle is not None
    nans = int(torch.isnan(got).sum())
    if nans:
        return f"; {percent(nans, got)} of the elements are NaN: uninitialised memory or a missing mask"
    if not bool(got.any()):
        return "; the output is all zeros"
    if got.numel() > CHUNK or not error.max:
        return ""
    # reduced precision leaves every element a little off: rounding of fp16 or TF32 is 2^-11, of bf16 2^-8
    relative = error.rms / answer.size.rms if answer.size.rms else math.inf
    if relative < 2e-2 and error.max < 0.1 * answer.size.max and answer.unit < 2.0**-11:
        return f"; the error looks like reduced precision ({'fp16 or tf32' if relative < 1.5e-3 else 'bf16'})"
    if _matches_transposed(answer, got):
        return "; it matches the reference with its last two axes swapped"
    return _rows_hint(answer, got)


def _matches_transposed(answer: Answer, got: Tensor) -> bool:
    oracle = answer.oracle
    if oracle is None or got.dim() < 2 or min(got.shape[-2:]) < 2 or got.is_complex():
        return False
    swapped = oracle.transpose(-1, -2).reshape(oracle.shape)
    return measure(got, swapped).max <= bounds(answer).max


def _rows_hint(answer: Answer, got: Tensor) -> str:
    """Say so when only the first or the last rows are wrong."""
    if got.dim() == 0 or got.shape[0] < 2 or answer.oracle is None:
        return ""
    off = (real(got).double() - real(answer.oracle).to(got.device)).abs() > bounds(answer).max
    rows = off.reshape(got.shape[0], -1).any(dim=1)
    wrong, total = int(rows.sum()), got.shape[0]
    if not 0 < wrong < total:
        return ""
    if bool(rows[-wrong:].all()):
        return f"; only the last {wrong} of {total} rows differ: check the mask and the grid"
    if bool(rows[:wrong].all()):
        return f"; only the first {wrong} of {total} rows differ: check the mask and the grid"
    return f"; {wrong} of {total} rows differ"


def place(index: int, tensor: Tensor) -> str:
    """A flat index as one index per axis."""
    if not tensor.dim():
        return "the only element"
    where = []
    for size in reversed(real(tensor).shape):
        index, here = divmod(index, max(size, 1))
        where.append(here)
    return f"index {tuple(reversed(where))}"


def percent(count: int, tensor: Tensor) -> str:
    share = 100 * count / max(tensor.numel(), 1)
    return f"{share:.3g}%"


def kind_of(leaf: Leaf) -> str:
    if isinstance(leaf, Tensor):
        return f"{bare(leaf.dtype)}{list(leaf.shape)}"
    return "None" if leaf is None else f"a Python {type(leaf).__name__}"


def bare(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
