"""How much error an answer allows: relative to the reference's own error and to what honest arithmetic loses.

Per leaf, with u the unit roundoff of what the reference computes in, K its longest accumulation and
r = max(u, min(u, 2^-24) * max(4, sqrt K)) what an honest kernel loses (accumulators are fp32 at least):

    max error <= max(4 * own max, c * change's max, 8 r * max |oracle|)
    rms error <= max(4 * own rms, c * change's rms, 4 r * rms oracle), and <= relative L2 class bound; for a single
                 number the largest error's bound
    c          = max(8, sqrt K) for fp32 and fp64, else 3     `change`: what one unit roundoff in the inputs does
    own        = the reference's error, or what rounding every operator's result does to the oracle (`steps`) if that
                 is more: at one draw the reference may have been lucky, an equally accurate kernel need not be;
                 the steps inside attention, sums and products count too

A kernel that computes in a coarser precision v errs about 0.58 * v/u times `change` (rounding is uniform in [-v, v]):
4750 times for TF32 or fp16 inside fp32. c stays below 512 (K is capped at 2^18), so that is seen wherever inputs are
sign-mixed; long sums of only positive numbers average it away. Measured once on a CPU, randn inputs, rms error over
its bound, honest sequential fp32 against inputs rounded to fp16: matmul K = 64..4096 0.07-0.12 and 29-148, conv 0.07
and 101, softmax 0.05-0.08 and 61-195, sums of 64..65536 terms 0.01-0.18 and 2.3-88, layer norm 0.03-0.04 and 27-104
(0.58-0.70 for E[x^2] - E[x]^2 at mean 3, and that fails at mean 100). Rounding only the output to fp16 is seen too,
least clearly for one sum of 65536 terms: 1.35.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from autotriton.judge.answers import Answer
from autotriton.judge.measure import rounding

# Relative L2 error by unit roundoff: fp64, fp32, TF32 and fp16, bf16. Coarser formats: four roundoffs.
CLASSES = ((2.0**-53, 1e-13), (2.0**-24, 1e-5), (2.0**-11, 2e-3), (2.0**-8, 1.6e-2))

_SLICE_FACTOR = 16.0
"""A slice may be this much worse than the whole, relative to its own norm."""


@dataclass(frozen=True)
class Bounds:
    """Largest and rms error an answer allows, and its relative L2 bound, already times the oracle's rms."""

    max: float
    rms: float
    l2: float


def bounds(answer: Answer) -> Bounds:
    """What this leaf allows; see the formulas above."""
    near, floor = rounding(answer.unit, answer.length), floor_of(answer)
    factor = reach(answer)
    own_max, own_rms = max(answer.error.max, answer.steps.max), max(answer.error.rms, answer.steps.rms)
    shared = max(4 * own_rms, factor * answer.change.rms, floor)
    largest = max(4 * own_max, factor * answer.change.max, 8 * near * answer.size.max, floor)
    return Bounds(
        max=largest,
        rms=largest if _is_one(answer) else max(shared, 4 * near * answer.size.rms),
        l2=max(shared, max(class_bound(answer.unit), 2 * near) * answer.size.rms),
    )


def _is_one(answer: Answer) -> bool:
    """Of a single number, the rms error is the largest error: nothing averages out."""
    return not isinstance(answer.value, Tensor) or answer.value.numel() == 1


def slice_bounds(answer: Answer, size: Tensor) -> Tensor:
    """L2 error that each slice of this size allows: by its size, or by how far it moved in any try."""
    allowed = _SLICE_FACTOR * class_bound(answer.unit) * size
    own_error = ((answer.error.slices, 8.0), (answer.steps.slices, 8.0))
    for slices, factor in (*own_error, (answer.change.slices, 4 * reach(answer))):
        if slices is not None:
            allowed = torch.maximum(allowed, factor * slices)
    return allowed


def sensitive(answer: Answer) -> bool:
    """Some slice was seen to move farther than its size allows; others may have been spared by luck."""
    size = answer.size.slices
    if size is None:
        return False
    return bool((slice_bounds(answer, size) > _SLICE_FACTOR * class_bound(answer.unit) * size).any())


def class_bound(unit: float) -> float:
    """Relative L2 error allowed for arithmetic of this unit roundoff."""
    return next((bound for limit, bound in CLASSES if unit <= limit), 4 * unit)


def reach(answer: Answer) -> float:
    """How many times `change` is allowed.

    Sequential fp32 sums lose up to 0.4 sqrt K times what rounded inputs do. Coarser types accumulate in fp32 and
    get their inputs exactly, so an honest kernel loses less than one `change` there.
    """
    return 3.0 if answer.unit > 2.0**-24 else max(8.0, math.sqrt(answer.length))


def floor_of(answer: Answer) -> float:
    """Below this nothing is judged: GPUs may flush fp32 subnormals to zero; fp16 is spaced 2^-24 down there."""
    dtype = answer.value.dtype if isinstance(answer.value, Tensor) else torch.float64
    return 4 * 2.0**-24 if dtype is torch.float16 else torch.finfo(dtype).tiny
