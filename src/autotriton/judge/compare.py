"""Is the candidate's tensor the right one? Compares with the fp64 oracle, relative to what honest arithmetic loses.

Must stay true: nothing of the reference's values reaches the text, only kinds, places and sizes of errors.
Covers: kind, shape, dtype, strides, NaN and infinities, every element, rms, relative L2, every slice, tied indices.
Does not cover: which memory the candidate returned (the sandbox reports that; `Answer.aliases` says what is allowed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from autotriton.judge.answers import Answer, Expected, Tie
from autotriton.judge.hints import bare, hint, kind_of, percent, place
from autotriton.judge.layouts import layout_problem
from autotriton.judge.measure import Spread, as_tensor, measure, real, rounding, slice_length, spans
from autotriton.judge.program import Leaf
from autotriton.judge.tolerance import Bounds, bounds, floor_of, slice_bounds
from autotriton.types import Check

_LUCKY_SHARE = 1e-5


@dataclass(frozen=True)
class Found:
    """One leaf compared. `problem` is empty when it passed."""

    problem: str = ""
    error: Spread | None = None
    allowed: Bounds | None = None

    @property
    def ratio(self) -> float:
        if self.error is None or self.allowed is None:
            return 0.0
        return self.error.max / self.allowed.max if self.allowed.max else 0.0


def compare(expected: Expected, got: list[Leaf], name: str) -> Check:
    """The candidate's output leaves against what this case expects."""
    if len(got) != len(expected.outputs):
        return Check(
            inputs=name, passed=False, detail=f"returned {len(got)} values where {len(expected.outputs)} are expected"
        )
    pairs = list(zip(expected.outputs, got, strict=True))
    sure = expected.later is not None
    return _check(name, [(answer, compare_leaf(answer, leaf, expected.in_domain, sure=sure)) for answer, leaf in pairs])


def compare_state(expected: Expected, before: dict[str, Tensor], after: dict[str, Tensor], name: str) -> Check:
    """Parameters and buffers after forward: changed as the reference changes them, else untouched."""
    return _check_held(expected, expected.state, before, after, name, "state")


def compare_inputs(expected: Expected, before: list[Leaf], after: list[Leaf], name: str) -> Check:
    """Input leaves after forward: changed as the reference changes them, else untouched."""
    held = {str(index): answer for index, answer in expected.inputs.items()}
    old = {str(index): leaf for index, leaf in enumerate(before)}
    return _check_held(expected, held, old, {str(index): leaf for index, leaf in enumerate(after)}, name, "input")


def compare_leaf(answer: Answer, got: Leaf, in_domain: bool = True, *, sure: bool = False) -> Found:
    """One leaf: kind first, then content. With `sure`, what passes would pass however far the oracle moves."""
    value = answer.value
    if isinstance(value, Tensor) and isinstance(got, Tensor):
        problem = _kind_problem(answer, value, got)
        if problem:
            return Found(problem)
        if answer.oracle is None:
            return Found(_exact_problem(value, got, answer.tie))
        return _compare_floats(answer, got, in_domain, sure)
    if type(value) is not type(got):
        return Found(f"is {kind_of(got)} where {kind_of(value)} is expected")
    if isinstance(value, float) and answer.oracle is not None:
        tensor = as_tensor(got)
        assert tensor is not None
        return _compare_floats(answer, tensor, in_domain, sure)
    return Found("" if value == got else f"is another {type(value).__name__} than expected")


def _compare_floats(answer: Answer, got: Tensor, in_domain: bool, sure: bool) -> Found:
    value, oracle = as_tensor(answer.value), answer.oracle
    assert value is not None
    assert oracle is not None
    allowed = bounds(answer)
    wrong, first = _mismatched_kinds(value, oracle, got, allowed.max, answer.unit, in_domain)
    error = measure(got, oracle, finite=(value, oracle))
    if wrong:
        text = f"{percent(wrong, got)} of the elements are finite, infinite or NaN where the reference is not"
        return Found(f"{text}, first at {place(first, got)}{hint(answer, got, error)}", error, allowed)
    if error.max > allowed.max:
        text = f"largest error {error.max:.2e} at {place(error.worst, got)}, allowed {allowed.max:.2e}"
        return Found(text + hint(answer, got, error), error, allowed)
    if error.rms > min(allowed.rms, allowed.l2):
        text = f"rms error {error.rms:.2e}, allowed {min(allowed.rms, allowed.l2):.2e}"
        return Found(text + hint(answer, got, error), error, allowed)
    return Found(_slice_problem(answer, got, error, sure), error, allowed)


def _slice_problem(answer: Answer, got: Tensor, error: Spread, sure: bool) -> str:
    """Small rows must not hide behind large ones; rows that are mostly cancellation are left to the other bounds."""
    size, length = answer.size.slices, slice_length(real(got).shape)
    if size is None or error.slices is None:
        return ""
    allowed = slice_bounds(answer, size).clamp_min(floor_of(answer) * math.sqrt(length))
    # Errors of cancelled rows show in the two above; where they were not measured, only clearly large rows are safe.
    measured = sure or answer.change.slices is not None
    unit = min(answer.unit, 2.0**-24) if measured else answer.unit
    noise = 16 * rounding(unit, answer.length) * answer.size.max * math.sqrt(length)
    errors = error.slices.to(size.device)
    wrong = (errors > allowed) & (size > noise)
    if not bool(wrong.any()) or _by_luck(wrong, errors, answer):
        return ""
    where = place(int(wrong.nonzero()[0]) * length, got)
    return f"{percent(int(wrong.sum()), wrong)} of the slices are wrong for their own size, first at {where}"


def _by_luck(wrong: Tensor, errors: Tensor, answer: Answer) -> bool:
    """A few slices of very many were spared by the directions their oracle was moved in: one of a million rows of a
    convolution, nearly all of it cut off by a ReLU, hardly moves where its neighbours do. They are no worse than half
    of all slices may be.
    """
    if int(wrong.sum()) > _LUCKY_SHARE * wrong.numel() or answer.change.slices is None:
        return False
    return bool((errors[wrong] <= slice_bounds(answer, torch.zeros_like(errors)).median()).all())


def _mismatched_kinds(
    value: Tensor, oracle: Tensor, got: Tensor, allowed: float, unit: float, in_domain: bool
) -> tuple[int, int]:
    """How many elements are NaN, infinite or finite where they must not be, and the first of them.

    Where the reference overflows but the truth does not, either is right.
    """
    flat, right, true = (real(tensor).reshape(-1) for tensor in (got, value, oracle))
    edge = torch.finfo(value.dtype).max * (1 - 8 * unit)
    count, first = 0, -1
    for start, stop in spans(flat.numel(), 1):
        if all(bool(torch.isfinite(one[start:stop]).all()) for one in (flat, right, true)):
            continue
        g = flat[start:stop].to(true.device, torch.float64)
        r, o = right[start:stop].to(true.device, torch.float64), true[start:stop]
        settled = torch.isfinite(r) & torch.isfinite(o)
        overflowed = torch.isinf(g) & (o.abs() >= edge) & (torch.sign(g) == torch.sign(o))
        bad = settled & ~torch.isfinite(g) & ~overflowed
        bad |= ~settled & ~(_same_kind(g, r, allowed) | _same_kind(g, o, allowed))
        if not in_domain:
            bad &= ~torch.isnan(r)
        here = int(bad.sum())
        if here and first < 0:
            first = start + int(bad.nonzero()[0])
        count += here
    return count, max(first, 0)


def _same_kind(one: Tensor, two: Tensor, allowed: float) -> Tensor:
    return (torch.isnan(one) & torch.isnan(two)) | (one == two) | ((one - two).abs() <= allowed)


def _kind_problem(answer: Answer, value: Tensor, got: Tensor) -> str:
    if got.dtype != value.dtype:
        return f"has dtype {bare(got.dtype)} where {bare(value.dtype)} is expected"
    if got.shape != value.shape:
        return f"has shape {tuple(got.shape)} where {tuple(value.shape)} is expected"
    if got.layout is not torch.strided:
        return f"has layout {got.layout} where a dense tensor is expected"
    return layout_problem(value, got, answer.layouts)


def _exact_problem(value: Tensor, got: Tensor, tie: Tie | None) -> str:
    wrong = got.to(value.device) != value
    if tie is not None and bool(wrong.any()):
        wrong &= ~_tied(tie, value, got.to(value.device))
    count = int(wrong.sum())
    if not count:
        return ""
    first = int(wrong.reshape(-1).nonzero()[0])
    text = f"{percent(count, value)} of the elements differ, first at {place(first, value)}"
    if not bool(got.any()):
        return f"{text}; the output is all zeros"
    return text


def _tied(tie: Tie, value: Tensor, got: Tensor) -> Tensor:
    """Where the index points at a value as good as the reference's; nowhere if indices leave the range or repeat."""
    shape = tie.index.shape
    table, chosen, right = tie.table, got.reshape(shape).long(), value.reshape(shape).long()
    dim = tie.dim % max(table.dim(), 1)
    if table.dim() == 0 or bool(((chosen < 0) | (chosen >= table.shape[dim])).any()):
        return torch.zeros_like(value, dtype=torch.bool)
    if chosen.dim() != table.dim():
        chosen, right = (index.reshape(-1) if table.dim() == 1 else index.unsqueeze(dim) for index in (chosen, right))
    if tie.distinct and bool((chosen.sort(dim=dim).values.diff(dim=dim) == 0).any()):
        return torch.zeros_like(value, dtype=torch.bool)
    one, two = table.gather(dim, chosen), table.gather(dim, right)
    equal = one == two
    if tie.slack > 0:
        equal |= (one.double() - two.double()).abs() <= tie.slack
    return equal.reshape(value.shape)


def _check(name: str, found: list[tuple[Answer, Found]]) -> Check:
    """The first problem, else the leaf that came closest to its bound."""
    failed = next((pair for pair in found if pair[1].problem), None)
    answer, leaf = failed or max(found, key=lambda pair: pair[1].ratio, default=(None, Found()))
    return Check(
        inputs=name,
        passed=failed is None,
        max_error=leaf.error.max if leaf.error else None,
        rms_error=leaf.error.rms if leaf.error else None,
        reference_max_error=answer.error.max if answer and leaf.error else None,
        reference_rms_error=answer.error.rms if answer and leaf.error else None,
        allowed_error=leaf.allowed.max if leaf.allowed else None,
        detail=f"{answer.name} ({kind_of(answer.value)}): {leaf.problem}" if answer and leaf.problem else "",
    )


def _check_held(
    expected: Expected,
    changed: dict[str, Answer],
    before: Mapping[str, Leaf],
    after: Mapping[str, Leaf],
    name: str,
    what: str,
) -> Check:
    if missing := [key for key in before if key not in after]:
        return Check(inputs=name, passed=False, detail=f"{what} {missing[0]} is missing after forward")
    found = []
    for key, old in before.items():
        answer = changed.get(key)
        if answer is not None:
            found.append((answer, compare_leaf(answer, after[key], expected.in_domain)))
        elif not _untouched(old, after[key]):
            problem = "was changed, which the reference does not do"
            found.append((Answer(f"{what} {key}", old), Found(problem)))
    return _check(name, found)


def _untouched(before: Leaf, after: Leaf) -> bool:
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return type(before) is type(after) and before == after
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    other = after.to(before.device)
    return torch.equal(before, other) or bool(((before == other) | ((before != before) & (other != other))).all())
