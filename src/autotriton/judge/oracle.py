"""What the right answer is, and how well it is known: the reference's result, an fp64 oracle, and both their errors.

Nothing here sees a candidate, and the inputs and the model it is given stay as they were: every run works on copies.
Covers: outputs, buffers and inputs the reference changes, aliasing, ties of arg-reductions, conditioning, work done.
Does not cover: an fp64 truth for references that draw random numbers, or that fail in fp64; these are their own
oracle and say so in `notes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.judge.answers import Answer, Expected, Tie
from autotriton.judge.layouts import alternatives
from autotriton.judge.measure import SLICE, Spread, as_tensor, measure, rounding, unit_of
from autotriton.judge.program import Inputs, Leaf, Model, Program, duplicate, flatten, state, structure
from autotriton.judge.promote import WAYS, Noise, Rounding, Steps, WideResult, run_wide
from autotriton.judge.tolerance import sensitive
from autotriton.judge.trace import Trace

TF32_UNIT = 2.0**-11
_TRIES = 3
"""The change along one random direction may be small by luck: of a few elements, or of a slice that hangs on one number
(attention torn between two logits). One slice in a hundred is that lucky, so it takes several directions to see all."""


def expect(
    program: Program,
    model: Model,
    inputs: Inputs,
    rng_seed: int,
    *,
    in_domain: bool = True,
    conditioned: bool = True,
) -> Expected:
    """The reference's answer for these inputs, with its oracle. `model` and `inputs` are left untouched.

    Without `conditioned`, how far the oracle moves with its inputs and its steps is measured when it is asked for.
    """
    trace = Trace()
    taken, given = duplicate(model), inputs.clone()
    with trace:
        result = program.run(taken, given, rng_seed)
    facts = _Facts(trace, TF32_UNIT if program.task.tf32 and trace.matmul else 0.0)
    answers = [*_outputs(program, result, given, taken, facts), *_changed(model, taken, inputs, given, facts)]
    described = structure(result)
    del taken, given, result  # large tasks need the room
    notes: list[str] = []
    way: int | None = None
    if trace.random:
        notes.append("the reference draws random numbers, so it is its own oracle")
        answers = [_own_oracle(answer) for answer in answers]
    else:
        way, answers = _with_oracle(program, model, inputs, rng_seed, answers, notes)
    expected = Expected(
        (), described, ops=dict(trace.ops), in_domain=in_domain, random=trace.random, notes=tuple(notes)
    )
    if way is None:
        return _with_answers(expected, answers)

    def moved(way: int = way) -> Expected:
        return _with_answers(expected, _conditioned(program, model, inputs, rng_seed, answers, facts, way))

    return moved() if conditioned else replace(_with_answers(expected, answers), later=moved)


def _with_answers(expected: Expected, answers: list[Answer]) -> Expected:
    return replace(
        expected,
        outputs=tuple(answer for answer in answers if answer.name.startswith("output")),
        state={a.name.removeprefix("state "): a for a in answers if a.name.startswith("state ")},
        inputs={int(a.name.split()[1]): a for a in answers if a.name.startswith("input ")},
    )


@dataclass(frozen=True)
class _Facts:
    """What the trace says about every answer."""

    trace: Trace
    floor: float
    """Unit roundoff that is permitted in any case (TF32)."""

    @property
    def attention(self) -> bool:
        return any("scaled_dot_product" in name for name in self.trace.ops)

    @property
    def unit(self) -> float:
        return max(self.trace.unit, self.floor)


def _outputs(program: Program, result: Any, given: Inputs, taken: Model, facts: _Facts) -> list[Answer]:
    answers = []
    held = state(taken)
    for index, leaf in enumerate(flatten(result)[0]):
        answer = _answer(f"output {index}", leaf, facts)
        if isinstance(leaf, Tensor):
            aliases = tuple(i for i, other in enumerate(given.leaves()) if _shares(leaf, other))
            named = tuple(name for name, other in held.items() if _shares(leaf, other))
            answer = replace(answer, aliases=aliases, state_aliases=named, tie=_settled(leaf, given, facts))
            answer = replace(answer, layouts=alternatives(program, index, leaf, attention=facts.attention))
        answers.append(answer)
    return answers


def _changed(model: Model, taken: Model, inputs: Inputs, given: Inputs, facts: _Facts) -> list[Answer]:
    """Buffers, parameters and inputs the reference left different."""
    before = state(model)
    answers = [
        _answer(f"state {name}", after, facts) for name, after in state(taken).items() if not _same(before[name], after)
    ]
    for index, (old, new) in enumerate(zip(inputs.leaves(), given.leaves(), strict=True)):
        if isinstance(old, Tensor) and isinstance(new, Tensor) and not _same(old, new):
            answers.append(_answer(f"input {index}", new, facts))
    return answers


def _answer(name: str, leaf: Leaf, facts: _Facts) -> Answer:
    if isinstance(leaf, Tensor) and leaf.layout is not torch.strided:
        raise TaskError(f"{name} has layout {leaf.layout}", hint="return dense tensors; others cannot be compared")
    unit = 0.0
    if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
        unit = max(unit_of(leaf.dtype), facts.unit)
    elif isinstance(leaf, float):
        unit = facts.unit or unit_of(torch.float64)
    return Answer(name, leaf.detach() if isinstance(leaf, Tensor) else leaf, unit=unit, length=facts.trace.length)


def _own_oracle(answer: Answer) -> Answer:
    truth = as_tensor(answer.value)
    if truth is None or answer.unit == 0.0:
        return answer
    oracle = truth.to(torch.complex128 if truth.is_complex() else torch.float64)
    return replace(answer, oracle=oracle, size=measure(oracle))


def _with_oracle(
    program: Program,
    model: Model,
    inputs: Inputs,
    seed: int,
    answers: list[Answer],
    notes: list[str],
) -> tuple[int | None, list[Answer]]:
    """How the reference runs in fp64, and the answers with what it says there; None where nothing does."""
    floating = [answer for answer in answers if answer.unit > 0.0]
    if not floating:
        return None, answers
    way, truth = _first_that_works(program, model, inputs, seed, floating)
    if truth is None:
        notes.append("the reference does not run in fp64, so it is its own oracle")
        return None, [_own_oracle(answer) for answer in answers]
    if not truth.exact:
        notes.append("the reference keeps part of its work below fp64 even when run in fp64; the oracle is less exact")
    judged = {answer.name: _against(answer, truth.leaves[answer.name]) for answer in floating}
    return way, [judged.get(answer.name, answer) for answer in answers]


def _conditioned(
    program: Program, model: Model, inputs: Inputs, seed: int, answers: list[Answer], facts: _Facts, way: int
) -> list[Answer]:
    """The answers with how far the oracle moves."""
    floating = [answer for answer in answers if answer.oracle is not None]
    judged = {answer.name: answer for answer in floating}
    few = sum(answer.value.numel() for answer in floating if isinstance(answer.value, Tensor)) < SLICE
    names = list(judged)
    for attempt in range(_TRIES):
        if attempt and not few and not any(map(sensitive, judged.values())):
            break
        given = (max(facts.unit, 2.0**-52), seed + 1 + attempt, facts.trace.truncates)
        moved = run_wide(program, model, inputs, seed, way, names, noise=Noise(*given))
        if moved is not None:
            judged = {name: _moved(answer, "change", moved.leaves[name]) for name, answer in judged.items()}
        del moved
        moved = run_wide(program, model, inputs, seed, way, names, steps=Steps(facts.trace.units, Rounding(*given)))
        if moved is not None:
            judged = {name: _moved(answer, "steps", moved.leaves[name]) for name, answer in judged.items()}
    return [judged.get(answer.name, answer) for answer in answers]


def _first_that_works(
    program: Program, model: Model, inputs: Inputs, seed: int, floating: list[Answer]
) -> tuple[int, WideResult | None]:
    """The first way to run in fp64 that loses nothing, else the first that runs at all."""
    fallback: tuple[int, WideResult | None] = (0, None)
    for way in range(len(WAYS)):
        result = run_wide(program, model, inputs, seed, way, [answer.name for answer in floating])
        if result is None or any(not _alike(answer.value, result.leaves[answer.name]) for answer in floating):
            continue
        if result.exact:
            return way, result
        if fallback[1] is None:
            fallback = (way, result)
    return fallback


def _against(answer: Answer, truth: Leaf) -> Answer:
    value, oracle = as_tensor(answer.value), as_tensor(truth)
    assert value is not None
    assert oracle is not None
    oracle = oracle.to(torch.complex128 if oracle.is_complex() else torch.float64)
    return replace(answer, oracle=oracle, size=measure(oracle, finite=(value,)), error=measure(value, oracle))


def _moved(answer: Answer, field: Literal["change", "steps"], moved: Leaf) -> Answer:
    """The answer with how far its oracle moved, the farthest of several tries."""
    other = as_tensor(moved)
    if other is None or answer.oracle is None or other.shape != answer.oracle.shape:
        return answer
    new, old = measure(other, answer.oracle), answer.change if field == "change" else answer.steps
    slices = new.slices if old.slices is None or new.slices is None else torch.maximum(new.slices, old.slices)
    most = Spread(max(new.max, old.max), max(new.rms, old.rms), new.worst, slices)
    return replace(answer, change=most) if field == "change" else replace(answer, steps=most)


def _settled(leaf: Tensor, given: Inputs, facts: _Facts) -> Tie | None:
    """The tie behind an integer output, with the slack its computed values need."""
    tie = facts.trace.tie_of(leaf) if leaf.dtype in {torch.int64, torch.int32} else None
    if tie is None or not tie.table.is_floating_point() or any(_shares(tie.table, other) for other in given.leaves()):
        return tie
    scale = measure(tie.table).max
    unit = max(unit_of(tie.table.dtype), facts.unit)
    return replace(tie, slack=4 * rounding(unit, facts.trace.length) * scale)


def _shares(tensor: Tensor, other: Leaf) -> bool:
    if not isinstance(other, Tensor) or tensor.numel() == 0:
        return False
    return tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _same(before: Tensor, after: Tensor) -> bool:
    """Bit for bit, NaN included."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if torch.equal(before, after):
        return True
    return before.is_floating_point() and bool(((before == after) | (before.isnan() & after.isnan())).all())


def _alike(value: Leaf, truth: Leaf) -> bool:
    one, two = as_tensor(value), as_tensor(truth)
    return one is not None and two is not None and one.shape == two.shape and one.is_complex() == two.is_complex()
