"""Timed blocks: what the reference's process fills in, and what each process calls.

Every block gets new content: a draw of its own, scaled by a secret factor, at the same addresses; several variants of
it where they are small, so that consecutive samples never see the same memory. Used by the reference (its baselines and
the candidate's inputs) and by the candidate's process.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from autotriton.idle import wait_until_idle
from autotriton.judge import compare, structure
from autotriton.judge.allocator import Kept
from autotriton.judge.cases import derive
from autotriton.judge.oracle import expect
from autotriton.judge.program import Inputs, duplicate, state
from autotriton.judge.stopwatch import Stopwatch

_VARIANTS = ((32 << 20, 8), (128 << 20, 4), (1 << 30, 2))
"""Bytes of one set of inputs or outputs, and how many variants of it a block holds: all of its answers are kept until
the parent says which one it wants to see.
"""


def variants_for(input_bytes: int, output_bytes: int) -> int:
    larger = max(input_bytes, output_bytes)
    return next((count for limit, count in _VARIANTS if larger <= limit), 1)


def vary(inputs: Inputs, seed: int, *, in_place: bool = False) -> Inputs:
    """The same inputs times one secret factor below one: structure and signs stay, every content changes.

    `in_place` where they are the caller's own and there is no memory for another set.
    """
    generator = torch.Generator().manual_seed(seed)
    factor = 0.5 + 0.5 * float(torch.rand((), generator=generator, dtype=torch.float64))
    tensors = [leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor)]
    apart = len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)

    def scaled(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor.mul_(factor) if in_place and apart and tensor.is_contiguous() else tensor.mul(factor)

    return inputs.map(scaled)


class Rehearsal:
    """The reference's side: variants for the candidate's arena, and baselines of its own."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self.watch = Stopwatch()
        self.baselines: dict[str, Callable[..., Any]] = {}
        self.current: list[Inputs] = []
        self.kept = Kept()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        phase = str(request["phase"])
        if phase == "fill":
            return self._fill(self.reference.sessions[int(request["session"])], int(request["seed"]))
        if phase == "check":
            return self._check(self.reference.sessions[int(request["session"])], request)
        if phase == "quiet":
            return {"quiet": wait_until_idle(float(request["spin_ms"]))}
        return self._baseline(phase, str(request["baseline"]), int(request["seed"]))

    def make(self, seed: int) -> list[Inputs]:
        """Drawn anew: an answer to an earlier draw is no help, not even scaled."""
        seeds = [derive(seed, "timed", number) for number in range(self.reference.variants)]
        return [vary(self.reference.program.draw(one), one, in_place=self.reference.keeps_one) for one in seeds]

    def _for_baseline(self, seed: int) -> list[Inputs]:
        """Nothing can be learnt from a baseline's inputs: where another set is gigabytes, the candidate's are used."""
        shared = self.reference.keeps_one and self.current and not self.reference.first.mutates
        return self.current if shared else self.make(seed)

    def _fill(self, session: Any, seed: int) -> dict[str, Any]:
        self.current = []
        if self.reference.keeps_one:  # the last case's answer is not needed any more
            self.reference.kept.clear()
        self.current = self.make(seed)
        put: dict[str, Any] = session.put(self.current, state(self.reference.models[0]))
        return put

    def _check(self, session: Any, request: dict[str, Any]) -> dict[str, Any]:
        inputs = self.current[int(request["variant"])]
        self._give_back()
        try:
            return self._compared(session, request, inputs)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        if self.reference.gives_back:
            self.kept.give_back()

    def _compared(self, session: Any, request: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
        reference = self.reference
        expected = expect(reference.program, reference.models[0], inputs, reference.seed, conditioned=False)
        answer = request["answer"]
        try:
            got = [session.leaf(leaf) for leaf in answer["leaves"]]
        except (ValueError, KeyError, TypeError) as error:
            return {"check": {"passed": False, "detail": f"malformed: {error}"}}
        if answer["structure"] != expected.structure:
            return {"check": {"passed": False, "detail": "other containers than in the correctness runs"}}
        found = compare.compare(expected, got, "timed")
        if not found.passed and expected.later is not None:
            found = compare.compare(expected.later(), got, "timed")
        return {"check": found.model_dump(mode="json")}

    def _baseline(self, phase: str, name: str, seed: int) -> dict[str, Any]:
        program = self.reference.program
        if name not in self.baselines:
            model = duplicate(self.reference.models[0])
            self.baselines[name] = torch.compile(model) if name == "compile" else model
        model, inputs = self.baselines[name], self._for_baseline(seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = program.task.tf32
        calls = [functools.partial(model, *given.args, **given.kwargs) for given in inputs]
        with torch.no_grad():
            if phase == "warm":
                try:
                    with autotuned_alone(self.reference.gate) if name == "compile" else contextlib.nullcontext():
                        return self.watch.warm_up(calls)
                except Exception as error:  # noqa: BLE001 - torch.compile may refuse a model; that costs the baseline, not the verdict
                    return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
            self.kept.take_again()
            measured = self.watch.block(calls)
            self.watch.answers = []  # nobody asks for a baseline's
            return measured


@contextlib.contextmanager
def autotuned_alone(gate: Callable[[str], None]) -> Iterator[None]:
    """Inductor times its kernels' configurations at their first call: with neighbours it would choose badly, and the
    baseline would be slower than it is. Compiling goes on beside others.
    """
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    original: Callable[..., Any] = CachingAutotuner.benchmark_all_configs

    def gated(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate("enter")
        try:
            return original(self, *args, **kwargs)
        finally:
            gate("leave")

    CachingAutotuner.benchmark_all_configs = gated  # type: ignore[method-assign]
    try:
        yield
    finally:
        CachingAutotuner.benchmark_all_configs = original  # type: ignore[method-assign]


class Performance:
    """The candidate's side: its model called on the arena's variants."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.watch = Stopwatch()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        session = self.session
        if request["phase"] == "answer":
            result = self.watch.answers[int(request["variant"])]
            self.watch.answers = []
            handed: dict[str, Any] = session.hand_over(result, {})
            if session.large:
                session.previous = []
                del result
                session.kept.give_back()
            return handed
        session.load_state(request["state"])
        calls = [self._call(call) for call in request["calls"]]
        if session.blocks is not None:
            session.blocks.scalar_reads = -(10**9)  # the limit belongs to the correctness runs
        session.kept.take_again()
        with torch.no_grad():
            return self.watch.warm_up(calls) if request["phase"] == "warm" else self.watch.block(calls)

    def _call(self, call: dict[str, Any]) -> Callable[[], Any]:
        args, kwargs = structure.unpack(call["call"], self.session.place(call["inputs"])[1])
        model = self.session.model
        return lambda: model(*args, **kwargs)
