"""The right answer to each recorded call, and how far an honest kernel may be from it.

A gold written in torch has an fp64 oracle, as any task of the judge. A gold written in Triton is its own: run with
two kinds of poison in fresh memory (what differs was never written, or is random, and is not judged), and once with
its inputs moved by a rounding error, which says how much a differently ordered sum may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.judge.answers import Answer, Expected
from autotriton.judge.measure import Spread, measure, unit_of
from autotriton.judge.modes import EagerMode
from autotriton.judge.oracle import TF32_UNIT, expect
from autotriton.judge.program import Inputs, Program, flatten, seed_everything, structure
from autotriton.judge.scripts.packing import Handle, Named, Pieces, Place, replaced
from autotriton.judge.scripts.recording import Call, Recorder
from autotriton.judge.scripts.results import OPAQUE, gradients, portable, widened
from autotriton.judge.watching import _UNWRITTEN, poisoned
from autotriton.types import Task

_LENGTH = 1 << 12
"""How long a Triton gold's sums are is not known; this many terms are granted."""
_MOVED = 0.05
MOST_MASKED = 0.5
"""A call more of whose answer than this is random or never written is not judged."""


@dataclass(frozen=True)
class Truth:
    """One call's answer on one set of inputs."""

    inputs: Pieces
    expected: Expected
    unjudged: str = ""
    """Why its values cannot be compared; kinds and shapes still are."""
    works: bool = True
    """The gold launches a kernel or computes with torch here."""


class _Poison(EagerMode):  # type: ignore[no-untyped-call]
    """Fresh memory holds poison."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func.name()).partition("::")[2].split(".")[0]
        if name in _UNWRITTEN and isinstance(result, Tensor) and result.numel() and result.layout is torch.strided:
            return poisoned(result, self.kind)
        return result


class Truths:
    """Answers to every call of a recording, found when first asked for."""

    def __init__(self, recorder: Recorder, source: str, device: str, seed: int, count: Callable[[], int]) -> None:
        self.recorder, self.device, self.seed = recorder, device, seed
        self.in_triton = "triton" in source
        self.dots = "tl.dot" in source
        self._count = count
        self._kept: dict[tuple[int, int], Truth | None] = {}

    def get(self, number: int, case: int) -> Truth | None:
        """Case 0: as the test called it; case 1: other values in its float tensors. None where the gold fails then."""
        key = (number, case)
        if key not in self._kept:
            call = self.recorder.calls[number]
            inputs = call.inputs if case == 0 else self._moved(call)
            self._kept[key] = None if inputs is None else self._truth(call, inputs, case)
        return self._kept[key]

    # --- running the gold ---------------------------------------------------------------------------------

    def run(self, call: Call, tensors: list[Tensor], poison: int | None = None) -> tuple[Any, list[Tensor | None]]:
        """The gold's result and gradients for these tensors, which it may change."""
        leaves = self._leaves(call, tensors)
        function, value = self.prepared(call, leaves)
        seed_everything(self.seed)
        mode = nullcontext() if poison is None else _Poison(poison)
        with torch.enable_grad() if call.with_grad else torch.no_grad(), mode:
            result = function(*value[0], **value[1])
            grads = [] if call.grads is None else gradients(result, leaves, call.grads.tensors())
        return portable(result), grads

    def _leaves(self, call: Call, tensors: list[Tensor]) -> list[Tensor]:
        if call.with_grad:
            for tensor, piece in zip(tensors, call.inputs.pieces, strict=True):
                tensor.requires_grad_(piece.requires_grad)
        return tensors

    def prepared(self, call: Call, tensors: list[Tensor]) -> tuple[Callable[..., Any], Any]:
        """What is called, and with what."""
        calls = self.recorder.calls
        for made, name, number in call.states:
            held = {**dict(calls[made].result.named_parameters()), **dict(calls[made].result.named_buffers())}
            with torch.no_grad():
                held[name].copy_(tensors[number])

        def real(leaf: Any) -> Any:
            if isinstance(leaf, Place):
                return tensors[leaf.index]
            if isinstance(leaf, Handle):
                return calls[leaf.index].result
            return self.recorder.resolve(leaf.name) if isinstance(leaf, Named) else leaf

        return bound(call.path, call.kind, self.recorder.resolve, self._object(call)), replaced(call.value, real)

    def _object(self, call: Call) -> Any:
        return None if call.on is None else self.recorder.calls[call.on].result

    # --- answers ------------------------------------------------------------------------------------------

    def _truth(self, call: Call, inputs: Pieces, case: int) -> Truth | None:
        if call.raised is not None:
            return Truth(inputs, Expected((), None)) if case == 0 else None
        try:
            if not self.in_triton and call.grads is None and not call.objects:
                return self._torch_truth(call, inputs, case)
            return self._triton_truth(call, inputs)
        except Exception as error:
            if case:
                return None  # the gold refuses what we made of its inputs
            if isinstance(error, TaskError):
                raise
            text = " ".join(str(error).split())[:200]
            raise TaskError(f"call of `{call.path}` cannot be repeated: {type(error).__name__}: {text}") from error

    def _torch_truth(self, call: Call, inputs: Pieces, case: int) -> Truth:
        """fp64, with the judge's own oracle."""
        function = self._as_function(call)
        given = Inputs(tuple(inputs.tensors()))
        expected = expect(cast(Program, _CallProgram(self.device)), function, given, self.seed, in_domain=case == 0)
        outputs = tuple(map(_contiguous, expected.outputs))
        unjudged = "it draws random numbers" if expected.random else _opaque(expected)
        expected = replace(expected, outputs=outputs)
        return Truth(inputs, expected, unjudged, works=bool(expected.ops))

    def _as_function(self, call: Call) -> Callable[..., Any]:
        def function(*tensors: Tensor) -> Any:
            target, value = self.prepared(call, list(tensors))
            return portable(target(*value[0], **value[1]))

        return function

    def _triton_truth(self, call: Call, inputs: Pieces) -> Truth:
        before = self._count()
        first, first_after = self._flat(call, inputs, 0)
        works = self._count() > before
        second, second_after = self._flat(call, inputs, 1)
        unit = self._unit(call, first[0])
        moved = self._noisy(call, inputs, unit)
        old = list(map(widened, inputs.tensors()))
        outputs, bad, total = [], 0.0, 0
        for index, leaf in enumerate(first[0]):
            third = moved[0][index] if moved is not None and len(moved[0]) == len(first[0]) else leaf
            answer, share = _own_answer(f"output {index}", leaf, second[0][index], third, unit)
            if isinstance(leaf, Tensor):
                aliases = tuple(n for n, other in enumerate(first[2]) if _shares(leaf, other))
                answer = replace(answer, aliases=aliases)
                bad, total = bad + share * leaf.numel(), total + leaf.numel()
            outputs.append(answer)
        changed = {}
        for index, (was, now) in enumerate(zip(old, first_after, strict=True)):
            if not _same(was, now):
                third = moved[1][index] if moved is not None else now
                changed[index], share = _own_answer(f"input {index}", now, second_after[index], third, unit)
                bad, total = bad + share * now.numel(), total + now.numel()
        expected = Expected(tuple(outputs), first[1], inputs=changed, in_domain=False)
        unjudged = _opaque(expected)
        if total and bad / total > MOST_MASKED:
            unjudged = f"{bad / total:.0%} of its answer differs from run to run"
        return Truth(inputs, expected, unjudged, works)

    def _flat(self, call: Call, inputs: Pieces, poison: int | None) -> tuple[tuple[Any, Any, Any], list[Tensor]]:
        """Leaves, description and the tensors given; and those tensors afterwards."""
        tensors = inputs.tensors()
        result, grads = self.run(call, tensors, poison)
        if self.device == "cuda":
            torch.cuda.synchronize()
        whole = (result, tuple(grads)) if call.grads is not None else result
        leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in flatten(whole)[0]]
        return (leaves, structure(whole), tensors), [widened(tensor.detach()) for tensor in tensors]

    def _noisy(self, call: Call, inputs: Pieces, unit: float) -> tuple[Any, list[Tensor]] | None:
        """The same call with its float inputs moved by about one rounding error."""
        drawn = _Drawn(self.seed + 1)

        def move(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.element_size() == 1:
                return tensor
            sign = torch.where(drawn.uniform(tensor) < 0.5, -1.0, 1.0)
            size = 2 * max(unit_of(tensor.dtype), unit)
            return (tensor.double() * (1 + size * sign.double())).to(tensor.dtype)

        try:
            (leaves, _, _), after = self._flat(call, inputs.with_contents(inputs.tensors(move)), 0)
        except Exception:  # noqa: BLE001 - foreign code on inputs of ours: without this answer the bounds are narrower
            return None
        return leaves, after

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


def bound(path: str, kind: str, resolve: Callable[[str], Any], on: Any) -> Callable[..., Any]:
    """The callable a recorded call goes to."""
    if path.startswith("."):
        method: Callable[..., Any] = getattr(on, path[1:])
        return method
    target = resolve(path)
    if kind == "launch":
        return lambda grid, *args, **kwargs: target[grid](*args, **kwargs)
    return target  # type: ignore[no-any-return]


def _own_answer(name: str, leaf: Any, again: Any, moved: Any, unit: float) -> tuple[Answer, float]:
    """A Triton gold's leaf as its own oracle, and the share of it that is not to be judged."""
    if not isinstance(leaf, Tensor):
        return Answer(name, leaf), 0.0
    value = leaf.contiguous()
    differs = ~_equal(value, again) if isinstance(again, Tensor) and again.shape == leaf.shape else None
    if not value.is_floating_point() and not value.is_complex():
        share = float(differs.double().mean()) if differs is not None and value.numel() else 0.0
        return Answer(name, value, change=_integer_change(value, moved, share)), share
    oracle = value.to(torch.complex128 if value.is_complex() else torch.float64)
    error, share = Spread(), 0.0
    if differs is not None and bool(differs.any()):
        spread = measure(again, oracle, finite=(value,))
        scale = measure(oracle).max
        if bool(torch.isfinite(value[differs]).all()) and spread.max <= 64 * max(unit, 2.0**-24) * max(scale, 1e-30):
            error = spread  # atomics add in any order
        else:
            share = float(differs.double().mean())
            value = value.masked_fill(differs, float("nan"))
            oracle = oracle.masked_fill(differs, float("nan"))
    change = measure(moved, oracle, finite=(value,)) if _comparable(moved, leaf) else Spread()
    answer = Answer(name, value, oracle, unit=max(unit, unit_of(value.dtype)), length=_LENGTH)
    return replace(answer, size=measure(oracle, finite=(value,)), error=error, change=change), share


def _integer_change(value: Tensor, moved: Any, share: float) -> Spread:
    """How far integers may be off (`max`) and in what share of the elements (`rms`): rounded values sit on edges."""
    if share:
        return Spread(float("inf"), share)
    if not _comparable(moved, value) or value.dtype == torch.bool or not bool((moved != value).any()):
        return Spread()
    return Spread(float((moved.double() - value.double()).abs().max()), float((moved != value).double().mean()))


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


def _comparable(one: Any, other: Tensor) -> bool:
    return isinstance(one, Tensor) and one.shape == other.shape and one.dtype == other.dtype


def _equal(one: Tensor, other: Tensor) -> Tensor:
    equal = one == other
    return equal | ((one != one) & (other != other)) if one.is_floating_point() or one.is_complex() else equal


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(_equal(one, other).all())


def _shares(tensor: Tensor, other: Tensor) -> bool:
    return bool(tensor.numel()) and tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _is_mask(tensor: Tensor) -> bool:
    """Zeros, ones and infinities, more than one of them: a mask or a choice."""
    special = (tensor == 0) | (tensor == 1) | torch.isinf(tensor)
    return bool(special.all()) and bool((tensor != tensor.reshape(-1)[:1]).any()) if tensor.numel() else True
