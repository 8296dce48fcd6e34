"""Is the task worth judging? A verdict proves little where a wrong kernel could pass, so such tasks are named here.

Must stay true: nothing is guessed; every problem was seen with this judge's own comparison, on the inputs it uses. Of a
large task one case, and one forged answer to it, are alive at a time.
Covers: randomness, non-determinism, answers that ignore inputs, axes or parameters, and cheap wrong answers.
Does not cover: tasks that are merely easy, and axes of integer inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.judge.answers import Expected
from autotriton.judge.cases import CaseSpec, derive, make, plan
from autotriton.judge.compare import compare
from autotriton.judge.impostors import IMPOSTORS, Impostor, alike, equal, forge_all, named_leaves, swap
from autotriton.judge.measure import as_tensor, measure
from autotriton.judge.oracle import expect
from autotriton.judge.program import (
    Inputs,
    Leaf,
    Model,
    Program,
    duplicate,
    flatten,
    randomise_state,
    scramble,
    state,
    structure,
)
from autotriton.judge.tolerance import class_bound

MAX_RUNS = 200
HUGE_BYTES = 4 << 30
"""Inputs and outputs together; above this the tests per axis are skipped."""
CASES = 8
TRIES = 3


@dataclass(frozen=True)
class Admission:
    """Empty `problems`: the task is admitted."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    random: bool = False


def admit(program: Program, seed: int, max_runs: int = MAX_RUNS, *, large: bool = False) -> Admission:
    """Try to fool the judge on this task by itself, without any candidate. A large one is tried on plain draws only."""
    return _Trial(program, seed, max_runs, large).run()


class _Case:
    """One set of inputs with its expected answer."""

    def __init__(self, spec: CaseSpec, inputs: Inputs, expected: Expected) -> None:
        self.spec = spec
        self.inputs = inputs
        self.expected = expected

    def differs(self, leaves: list[Leaf], shape: Any = None) -> bool:
        if shape is not None and shape != self.expected.structure:
            return True
        return not compare(self.expected, leaves, self.spec.name).passed


class _Trial:
    """Collects problems and notes within a budget of forward passes."""

    def __init__(self, program: Program, seed: int, max_runs: int, large: bool) -> None:
        self.program = program
        self.large = large
        self.seed = seed
        self.left = max_runs
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.model = program.build(derive(seed, "model"))
        randomise_state(self.model, derive(seed, "state"))
        self.specs = [spec for spec in plan(derive(seed, "cases"), CASES) if spec.in_domain or not large]
        self.made: dict[str, _Case | None] = {}
        self.others: dict[str, list[Leaf]] = {}

    def run(self) -> Admission:
        if not self._usable(self._first().expected):
            return Admission(tuple(self.problems), tuple(self.notes))
        if self._is_random(self._first()):
            return Admission(tuple(self.problems), tuple(self.notes), random=True)
        self._try_impostors()
        self._try_inputs()
        self._try_parameters()
        return Admission(tuple(self.problems), tuple(dict.fromkeys(self.notes)))

    def case(self, index: int) -> _Case | None:
        """Case `index`, expected once; None where it does not apply or the reference raises on bent inputs."""
        spec = self.specs[index]
        if spec.name not in self.made:
            if self.large:
                self.made.clear()
                self.others.clear()
            self.left -= 3
            self.made[spec.name] = self._expect(spec)
        return self.made[spec.name]

    def cases(self, count: int = CASES) -> Iterator[_Case]:
        for index in range(min(count, len(self.specs))):
            found = self.case(index)
            if found is not None:
                yield found
                del found  # of a large task no two at once

    def answer(self, inputs: Inputs, model: Model | None = None, rng: int = 0) -> tuple[list[Leaf], Any]:
        self.left -= 1
        result = self.program.run(duplicate(model or self.model), inputs.clone(), rng)
        return flatten(result)[0], structure(result)

    def _expect(self, spec: CaseSpec) -> _Case | None:
        inputs = make(self.program, spec)
        if inputs is None:
            return None
        try:
            expected = expect(self.program, self.model, inputs, 0, in_domain=spec.in_domain)
        except TaskError:
            if spec.in_domain:
                raise
            return None
        return _Case(spec, inputs, expected)

    def _usable(self, expected: Expected) -> bool:
        """There is something to compare at all."""
        tensors = [answer.value for answer in expected.outputs if isinstance(answer.value, Tensor)]
        changed = [*expected.state, *expected.inputs]
        if not tensors and not changed:
            self.problems.append("the reference returns no tensor")
        elif tensors and not any(tensor.numel() for tensor in tensors):
            self.problems.append("every output of the reference is empty")
        elif tensors and not any(bool(torch.isfinite(tensor).any()) for tensor in tensors if tensor.numel()):
            self.problems.append("no output of the reference is finite")
        self.notes += expected.notes
        return not self.problems

    def _is_random(self, case: _Case) -> bool:
        again, shape = self.answer(case.inputs, rng=0)
        if case.differs(again, shape) or _drifts(case.expected, again):
            self.problems.append("the reference is not deterministic: the same inputs and RNG seed give another answer")
            return True
        same = all(equal(answer.value, leaf) for answer, leaf in zip(case.expected.outputs, again, strict=True))
        del again
        if case.differs(*self.answer(case.inputs, rng=1)):
            self.problems.append("the reference is random by itself: another RNG seed gives another answer")
            return True
        if not same:
            self.notes.append("the reference is not bit-for-bit deterministic, but stays within tolerance")
        return False

    def _try_impostors(self) -> None:
        """Cheap wrong answers must fail in at least one case. Case by case: of a large task each is made once."""
        if not any(isinstance(answer.value, Tensor) for answer in self._first().expected.outputs):
            return
        places = [index for index, leaf in enumerate(self._first().inputs.leaves()) if isinstance(leaf, Tensor)]
        passing: dict[str, Callable[[_Case], bool]] = {
            **{name: partial(self._forged_passes, forge) for name, forge in IMPOSTORS.items()},
            **{f"input {index}, returned as it is,": partial(_identity_passes, index) for index in places},
        }
        for case in self.cases():
            passing = {name: passes for name, passes in passing.items() if passes(case)}
            del case
            if not passing:
                break
        self.problems += [f"{name} passes every case" for name in passing]
        self._try_single_outputs(self._first())
        self.others.clear()

    def _another_answer(self, case: _Case) -> list[Leaf]:
        """The answer to another draw, once per case."""
        name = case.spec.name
        if name not in self.others:
            self.others[name] = self.answer(self.program.draw(derive(case.spec.seed, "another")))[0]
        return self.others[name]

    def _forged_passes(self, forge: Impostor, case: _Case) -> bool:
        """The forged answer applies and is taken for the right one."""
        forged = forge_all(case.expected, self._another_answer(case), forge)
        return forged is not None and not case.differs(forged)

    def _try_single_outputs(self, case: _Case) -> None:
        """With several outputs, say which of them proves nothing by itself."""
        other = self._another_answer(case)
        values = [answer.value for answer in case.expected.outputs]
        tensors = [index for index, value in enumerate(values) if isinstance(value, Tensor)]
        if len(tensors) < 2:
            return
        for index in tensors:
            leaf = values[index]
            assert isinstance(leaf, Tensor)
            for forged, what in ((torch.zeros_like(leaf), "zeros pass for it"), (other[index], "it never changes")):
                if not case.differs([*values[:index], forged, *values[index + 1 :]]):
                    self.notes.append(f"output {index} alone proves little: {what} on {case.spec.name}")

    def _try_inputs(self) -> None:
        axes = self._total_bytes(self._first()) <= HUGE_BYTES
        if not axes:
            self.notes.append("the tests per input axis were skipped: inputs and outputs are too large")
        for place, (name, leaf) in enumerate(named_leaves(self._first().inputs.map(_outline))):
            if not isinstance(leaf, Tensor) or leaf.numel() == 0:
                continue
            if self._spent("the tests of the remaining inputs"):
                return
            if self._constant(place):
                self.notes.append(f"{name} is the same in every draw")
            elif not self._matters(place, None):
                self.problems.append(f"the answer does not depend on {name}")
            elif axes and leaf.is_floating_point():
                self._try_axes(place, name, leaf)

    def _try_axes(self, place: int, name: str, leaf: Tensor) -> None:
        for axis in range(leaf.dim()):
            if leaf.shape[axis] < 2 or self._spent("the tests per input axis"):
                continue
            if not self._matters(place, axis):
                self.problems.append(f"the answer does not depend on the second half of {name} along axis {axis}")

    def _matters(self, place: int, axis: int | None) -> bool:
        """Another draw's content in this leaf (or in its second half along an axis) changes some answer."""
        # All of them: where a bound or a maximum decides, most draws do not show what the answer depends on.
        for case in self.cases(TRIES if self.large else CASES):
            other = self.program.draw(derive(case.spec.seed, "other", place))
            swapped = swap(case.inputs, other, place, axis)
            if swapped is None:
                return True
            try:
                if case.differs(*self.answer(swapped)):
                    return True
            except TaskError:  # the two halves do not fit together: it depends on them
                return True
            del case, other, swapped
        return False

    def _constant(self, place: int) -> bool:
        first = named_leaves(self._first().inputs)
        for index in range(2):
            draw = named_leaves(self.program.draw(derive(self.seed, "constant", index)))
            if len(draw) != len(first) or not equal(draw[place][1], first[place][1]):
                return False
        return True

    def _try_parameters(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            return
        names = [name for name, held in self.model.named_parameters() if held.is_floating_point() and held.numel()]
        if not names:
            return
        if not self._parameters_matter(names):
            self.problems.append("the answer does not depend on any parameter")
            return
        for name in names if len(names) > 1 else []:
            if self._spent("the tests of the remaining parameters"):
                return
            if not self._parameters_matter([name]):
                self.notes.append(f"parameter {name} alone does not change the answer")

    def _parameters_matter(self, names: list[str]) -> bool:
        other = duplicate(self.model)
        held = state(other)
        for index, name in enumerate(names):
            scramble(held[name], derive(self.seed, "parameter", name, index))
        for case in self.cases(TRIES):
            if case.differs(*self.answer(case.inputs, other)):
                return True
            del case
        return False

    def _first(self) -> _Case:
        case = self.case(0)
        assert case is not None
        return case

    def _spent(self, what: str) -> bool:
        if self.left > 0:
            return False
        self.notes.append(f"{what} were skipped: the budget of runs is spent")
        return True

    def _total_bytes(self, case: _Case) -> int:
        leaves = [*case.inputs.leaves(), *(answer.value for answer in case.expected.outputs)]
        return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, Tensor))


def _identity_passes(index: int, case: _Case) -> bool:
    leaf = case.inputs.leaves()[index]
    values = [answer.value for answer in case.expected.outputs]
    if not all(alike(value, leaf) for value in values if isinstance(value, Tensor)):
        return False
    return not case.differs([leaf if isinstance(value, Tensor) else value for value in values])


def _outline(tensor: Tensor) -> Tensor:
    """Its shape and dtype without its content."""
    return tensor.to("meta")


def _drifts(expected: Expected, again: list[Leaf]) -> bool:
    """A second run is far from the first, whatever the oracle says: hidden state spoils the oracle too."""
    for answer, leaf in zip(expected.outputs, again, strict=True):
        one, two = as_tensor(answer.value), as_tensor(leaf)
        if one is None or two is None or answer.oracle is None:
            continue
        if measure(two, one).rms > min(100 * class_bound(answer.unit), 0.1) * measure(one).rms:
            return True
    return False
