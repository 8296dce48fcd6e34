"""The right answer to each recorded call, and how far an honest kernel may be from it.

A gold written in torch has an fp64 oracle, as any task of the judge. A gold written in Triton is its own: it runs
under conditions that differ in whatever should not matter (see `running.py`), what differs then is not judged
(`agreement.py`), and once with its inputs moved by a rounding error, which says how much a differently ordered sum may
differ. Before a candidate is found wrong, the gold is run under more of these conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.judge.answers import Answer, Expected
from autotriton.judge.interpreting import Interpreter
from autotriton.judge.measure import unit_of
from autotriton.judge.native import Native
from autotriton.judge.oracle import TF32_UNIT, expect
from autotriton.judge.program import Inputs, Program, seed_everything
from autotriton.judge.scripts.agreement import Seen, equal
from autotriton.judge.scripts.packing import Pieces
from autotriton.judge.scripts.recording import Call, Recorder
from autotriton.judge.scripts.results import OPAQUE, portable, widened
from autotriton.judge.scripts.running import FIRST, SETTLING, Fault, Run, Runner, Setting
from autotriton.types import Task

_MOVED = 0.05
MOST_OPEN = 0.5
"""A call more of whose answer than this differs from run to run is not judged."""


@dataclass(frozen=True)
class Truth:
    """One call's answer on one set of inputs."""

    inputs: Pieces
    expected: Expected
    unjudged: str = ""
    """Why its values cannot be compared; kinds and shapes still are."""
    works: bool = True
    """The gold launches a kernel or computes with torch here."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """By the answer's name: what the gold's runs agree on."""
    strays: bool = False
    """The gold itself writes between its inputs."""
    breaks: bool = False
    """The gold itself writes past the end of memory it allocated."""

    def determined(self, name: str, got: Any) -> Any:
        return self.seen[name].determined(got) if name in self.seen else got


class Truths:
    """Answers to every call of a recording, found when first asked for."""

    def __init__(self, recorder: Recorder, source: str, device: str, seed: int, witness: Interpreter | Native) -> None:
        self.recorder, self.device, self.seed = recorder, device, seed
        self.runner = Runner(recorder, device, seed, witness)
        self.in_triton = "triton" in source
        self.dots = "tl.dot" in source
        self.quiet: frozenset[int] = frozenset()
        """Calls that cannot stand poison: zeros lie in fresh memory and behind the inputs instead."""
        self.settles = True
        self._kept: dict[tuple[int, int], Truth | None] = {}
        self._settled: set[tuple[int, int]] = set()

    def get(self, number: int, case: int) -> Truth | None:
        """Case 0: as the test called it; case 1: other values in its float tensors. None where the gold fails then.

        Raises Fault where the gold costs this process its device.
        """
        key = (number, case)
        if key not in self._kept:
            call = self.recorder.calls[number]
            inputs = call.inputs if case == 0 else self._moved(call)
            self._kept[key] = None if inputs is None else self._truth(number, inputs, case)
        return self._kept[key]

    def settle(self, number: int, case: int) -> bool:
        """Run the gold under more conditions, once; whether that was done. For answers that are about to be refused."""
        key, call = (number, case), self.recorder.calls[number]
        known = self._kept.get(key)
        if not self.settles or key in self._settled or known is None or not known.seen:
            return False
        self._settled.add(key)
        try:
            self._kept[key] = self._triton_truth(call, known.inputs, number in self.quiet, SETTLING)
        except Exception as error:
            if self.runner.dead():
                raise Fault(_line(error)) from error
            return False
        return True

    # --- answers ------------------------------------------------------------------------------------------

    def _truth(self, number: int, inputs: Pieces, case: int) -> Truth | None:
        call = self.recorder.calls[number]
        if call.raised is not None:
            return Truth(inputs, Expected((), None)) if case == 0 else None
        try:
            if not self.in_triton and call.grads is None and not call.objects:
                return self._torch_truth(call, inputs, case)
            return self._triton_truth(call, inputs, number in self.quiet, FIRST)
        except Exception as error:
            if self.runner.dead():
                raise Fault(_line(error)) from error
            if case:
                return None  # the gold refuses what we made of its inputs
            if isinstance(error, TaskError):
                raise
            raise TaskError(f"call of `{call.path}` cannot be repeated: {_line(error)}") from error

    def _torch_truth(self, call: Call, inputs: Pieces, case: int) -> Truth:
        """fp64, with the judge's own oracle."""
        function = self._as_function(call)
        given = Inputs(tuple(inputs.tensors()))
        expected = expect(
            cast(Program, _CallProgram(self.device)), function, given, self.runner.drawing_seed, in_domain=case == 0
        )
        outputs = tuple(map(_contiguous, expected.outputs))
        unjudged = "it draws random numbers" if expected.random else _opaque(expected)
        expected = replace(expected, outputs=outputs)
        return Truth(inputs, expected, unjudged, works=bool(expected.ops))

    def _as_function(self, call: Call) -> Callable[..., Any]:
        def function(*tensors: Tensor) -> Any:
            target, value = self.runner.prepared(call, list(tensors))
            return portable(target(*value[0], **value[1]))

        return function

    def _triton_truth(self, call: Call, inputs: Pieces, quiet: bool, settings: tuple[Setting, ...]) -> Truth:
        before = self.runner.launches()
        runs = self.runner.several(call, inputs, settings, quiet=quiet)
        first = next(runs)
        works = self.runner.launches() > before
        unit = self._unit(call, first.leaves)
        given = {f"input {index}": tensor for index, tensor in enumerate(map(widened, inputs.tensors()))}
        seen = {name: Seen(name, leaf, unit) for name, leaf in _named(first).items()}
        changed = {name for name, old in given.items() if not _same(old, seen[name].first)}
        strays, breaks = first.strays, first.breaks
        for run in runs:
            for name, leaf in _named(run, len(first.leaves)).items():
                seen[name].add(leaf)
                changed |= {name} if name in given and not _same(given[name], leaf) else set()
            strays, breaks = strays or run.strays, breaks or run.breaks
        moved = self._noisy(call, inputs, unit, quiet)
        after = _named(moved, len(first.leaves)) if moved is not None else {}
        answers = {
            name: one.answer(after.get(name)) for name, one in seen.items() if name not in given or name in changed
        }
        outputs = [self._with_aliases(answers[f"output {n}"], leaf, first) for n, leaf in enumerate(first.leaves)]
        inputs_after = {n: answers[f"input {n}"] for n in range(len(given)) if f"input {n}" in changed}
        expected = Expected(tuple(outputs), first.description, inputs=inputs_after, in_domain=False)
        judged = {name: seen[name] for name in answers}
        return Truth(inputs, expected, _unjudged(expected, judged), works, judged, strays, breaks)

    def _with_aliases(self, answer: Answer, leaf: Any, run: Run) -> Answer:
        return replace(answer, aliases=run.placed.holders(leaf)) if isinstance(leaf, Tensor) else answer

    def _noisy(self, call: Call, inputs: Pieces, unit: float, quiet: bool) -> Run | None:
        """The same call with its float inputs moved by about one rounding error."""
        drawn = _Drawn(self.seed + 1)

        def move(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.element_size() == 1:
                return tensor
            sign = torch.where(drawn.uniform(tensor) < 0.5, -1.0, 1.0)
            size = 2 * max(unit_of(tensor.dtype), unit)
            return (tensor.double() * (1 + size * sign.double())).to(tensor.dtype)

        try:
            return self.runner.once(call, inputs.with_contents(inputs.tensors(move)), FIRST[0], quiet=quiet)
        except Exception:
            if self.runner.dead():
                raise
            return None  # foreign code on inputs of ours: without this answer the bounds are narrower

    def _unit(self, call: Call, leaves: list[Any]) -> float:
        """Unit roundoff of the coarsest float type that goes in or comes out; TF32 where fp32 meets `tl.dot`."""
        names = {piece.dtype for piece in call.inputs.pieces}
        dtypes = [getattr(torch, name) for name in names]
        dtypes += [leaf.dtype for leaf in leaves if isinstance(leaf, Tensor)]
        units = [unit_of(dtype) for dtype in dtypes if dtype.is_floating_point]
        coarsest = max(units, default=2.0**-24)
        return max(coarsest, TF32_UNIT) if self.dots and torch.float32 in dtypes else coarsest

    def _moved(self, call: Call) -> Pieces | None:
        """Other values in the float tensors, of the same sign and nearly the same size; masks and integers stay.

        Integers of a torch gold are shuffled: its answers to constants written in the test could be learnt by heart.
        """
        if call.raised is not None or call.cannot is not None or call.kind == "make":
            return None
        drawn, changed = _Drawn(self.seed + 2), [False]

        def move(tensor: Tensor) -> Tensor:
            if tensor.is_floating_point() and tensor.element_size() > 1 and not _is_mask(tensor):
                changed[0] = True
                return (tensor.double() * (1 + _MOVED * (2 * drawn.uniform(tensor).double() - 1))).to(tensor.dtype)
            if not self.in_triton and tensor.dtype in (torch.int64, torch.int32) and tensor.numel() > 1:
                changed[0] = True
                order = drawn.uniform(tensor).reshape(-1).argsort()
                return tensor.reshape(-1)[order].reshape(tensor.shape)
            return tensor

        tensors = call.inputs.tensors(move)
        return call.inputs.with_contents(tensors) if changed[0] else None


class _Drawn:
    """Uniform numbers from a seed, on the device of whatever they are for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def uniform(self, like: Tensor) -> Tensor:
        if like.device not in self._generators:
            self._generators[like.device] = torch.Generator(device=like.device).manual_seed(self.seed)
        return torch.rand(like.shape, generator=self._generators[like.device], device=like.device, dtype=torch.float32)


@dataclass(frozen=True)
class _CallProgram:
    """As much of a `Program` as the oracle asks for, around one recorded call."""

    where: str
    task: Task = field(default_factory=lambda: Task(id="call", source=""))

    @property
    def device(self) -> torch.device:
        return torch.device(self.where)

    def run(self, model: Callable[..., Any], inputs: Inputs, seed: int = 0) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        seed_everything(seed)
        try:
            with torch.no_grad():
                return model(*inputs.args)
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {error}") from error


def _named(run: Run, count: int | None = None) -> dict[str, Any]:
    """Leaves by name: results, then the tensors given. `count`: how many results there must be; others are None."""
    leaves = run.leaves if count is None or len(run.leaves) == count else [None] * count
    named = {f"output {index}": leaf for index, leaf in enumerate(leaves)}
    return {**named, **{f"input {index}": tensor for index, tensor in enumerate(run.after)}}


def _unjudged(expected: Expected, seen: dict[str, Seen]) -> str:
    total = sum(one.numel for one in seen.values())
    share = sum(one.open_count for one in seen.values()) / max(total, 1)
    return f"{share:.0%} of its answer differs from run to run" if share > MOST_OPEN else _opaque(expected)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _contiguous(answer: Answer) -> Answer:
    """Layout is no part of a script's answer: what the test does with it does not show strides."""
    value = answer.value.contiguous() if isinstance(answer.value, Tensor) else answer.value
    oracle = answer.oracle.contiguous() if answer.oracle is not None else None
    return replace(answer, value=value, oracle=oracle)


def _opaque(expected: Expected) -> str:
    values = [answer.value for answer in expected.outputs]
    if any(isinstance(value, str) and value == OPAQUE for value in values) and not expected.inputs:
        return "it returns an object"
    return ""


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(equal(one, other).all())


def _is_mask(tensor: Tensor) -> bool:
    """Zeros, ones and infinities, more than one of them: a mask or a choice."""
    special = (tensor == 0) | (tensor == 1) | torch.isinf(tensor)
    return bool(special.all()) and bool((tensor != tensor.reshape(-1)[:1]).any()) if tensor.numel() else True
