"""The gold run again, under conditions that tell what its answer depends on.

Covers what lies in fresh memory and around everything it was given, where that lies, which configuration tuning chose,
and who else uses the device meanwhile. Does not cover what stays the same in all of these: such an element is judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from autotriton.judge.interpreting import Interpreter
from autotriton.judge.native import Native
from autotriton.judge.program import flatten, seed_everything, structure
from autotriton.judge.scripts.memory import ZEROS, Fences, Placed, place, salt
from autotriton.judge.scripts.packing import Handle, Named, Pieces, Place, bound, replaced
from autotriton.judge.scripts.recording import Call, Recorder
from autotriton.judge.scripts.results import gradients, portable, widened
from autotriton.judge.scripts.tuning import Tuning
from autotriton.judge.watching import Ranges

_LOAD_SIZE, _LOAD_STEPS = 2048, 8
"""Products of matrices beside the gold: about 3 ms on an H200, with work for every multiprocessor."""


class Fault(Exception):
    """The gold has ended its device context: nothing more can be learnt in this process."""


@dataclass(frozen=True)
class Setting:
    """The conditions of one run."""

    number: int
    """The interpreter's configuration."""
    poison: int
    config: float | None = None
    """See `Tuning.chosen`."""
    apart: bool = False
    """Inputs lie in another order, with other distances."""
    busy: bool = False
    """Somebody else uses the device too."""
    fresh: bool = False
    """Kernels are loaded anew, as in a candidate's first call."""


FIRST = (Setting(0, 0), Setting(1, 1, config=1.0, apart=True))
SETTLING = (
    *FIRST,
    Setting(2, 0, config=0.0, busy=True),
    Setting(3, 1, config=0.5, apart=True, busy=True),
    Setting(4, 0, config=0.25),
    Setting(5, 1, config=0.75, apart=True),
    Setting(6, 0, config=0.125, busy=True),
    Setting(7, 1, config=0.375, apart=True, busy=True),
    Setting(8, 0, config=0.625, busy=True),
    Setting(9, 1, config=0.875, busy=True),
    *(Setting(10 + n, n % 2, apart=n % 4 > 1, busy=n % 3 == 0, fresh=n % 2 == 0) for n in range(8)),
)
"""Who wins a race between programs is a matter of timing: the last of these differ in nothing else."""
SETTLING_S = 10.0


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    leaves: list[Any]
    description: Any
    after: list[Tensor]
    """The tensors it was given, afterwards."""
    placed: Placed
    strays: bool
    """It wrote between its inputs."""
    breaks: bool
    """It wrote past the end of memory it allocated."""


class Runner:
    """Calls of one recording, repeated."""

    def __init__(self, recorder: Recorder, device: str, seed: int, witness: Interpreter | Native) -> None:
        self.recorder, self.device, self.witness = recorder, device, witness
        self.drawing_seed = Random(f"drawing {seed}").getrandbits(31)
        """Random numbers that gold and candidate draw in a call follow from it; the inputs do not."""
        self.tuning = Tuning() if device == "cuda" else None
        self._load: tuple[torch.cuda.Stream, Tensor, Tensor] | None = None

    def launches(self) -> int:
        return sum(self.witness.counts.values())

    def dead(self) -> bool:
        """Whether the device refuses this process since a kernel faulted."""
        if self.device != "cuda":
            return False
        try:
            torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 - torch has several classes for it
            return True
        return False

    def several(self, call: Call, inputs: Pieces, settings: tuple[Setting, ...], *, quiet: bool) -> Iterator[Run]:
        """One run per setting, the first in any case; later ones only while there is time."""
        until = time.monotonic() + SETTLING_S
        for setting in settings:
            if setting.number < len(FIRST) or time.monotonic() < until:
                yield self.once(call, inputs, setting, quiet=quiet)

    def once(self, call: Call, inputs: Pieces, setting: Setting, *, quiet: bool = False) -> Run:
        """`quiet`: zeros instead of poison."""
        run = self._attempt(call, inputs, setting, quiet)
        tuned = self.tuning is not None and self.tuning.count
        if tuned:  # every configuration has run over these inputs
            run = self._attempt(call, inputs, setting, quiet)
        return run

    def _attempt(self, call: Call, inputs: Pieces, setting: Setting, quiet: bool) -> Run:
        kind = ZEROS if quiet else setting.poison
        salt(self.device, kind)
        placed, fences = place(inputs, self.device, kind, apart=setting.apart), Fences(kind)
        try:
            with self._under(setting, placed, fences):
                result, grads = self._run(call, placed.tensors, fences)
        except Exception:
            if setting.number == 0 or self.dead():
                raise
            plain = Setting(
                0, setting.poison, apart=setting.apart
            )  # another configuration may fail where the best works
            return self._attempt(call, inputs, plain, quiet)
        whole = (result, tuple(grads)) if call.grads is not None else result
        leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in flatten(whole)[0]]
        after = [widened(tensor.detach()) for tensor in placed.tensors]
        return Run(leaves, structure(whole), after, placed, placed.strayed(), bool(fences.broken_fences()))

    @contextmanager
    def _under(self, setting: Setting, placed: Placed, fences: Fences) -> Iterator[None]:
        if isinstance(self.witness, Interpreter):
            fences.ranges.extend(placed.ranges())
            self.witness.ranges, self.witness.config_index = fences.ranges, setting.number
        if self.tuning is not None:
            self.tuning.chosen, self.tuning.count = setting.config, 0
        if setting.fresh and self.device == "cuda":
            self._unload()
        if setting.busy and self.device == "cuda":
            self._start_load()
        try:
            yield
            if self.device == "cuda":
                torch.cuda.synchronize()
        finally:
            if isinstance(self.witness, Interpreter):
                self.witness.ranges, self.witness.config_index = Ranges(), 0
            if self.tuning is not None:
                self.tuning.chosen = None

    def _unload(self) -> None:
        """Forget the compiled kernels of the gold; Triton loads them from its files again."""
        for kernel in vars(self.recorder.gold).values():
            while hasattr(kernel, "fn") and not hasattr(kernel, "device_caches"):
                kernel = kernel.fn
            if isinstance(getattr(kernel, "device_caches", None), dict):
                kernel.device_caches.clear()

    def _start_load(self) -> None:
        """Work on another stream: the gold's programs get their turn later, and in another order."""
        if self._load is None:
            one = torch.ones(_LOAD_SIZE, _LOAD_SIZE, device="cuda")
            self._load = (torch.cuda.Stream(), one, torch.empty_like(one))  # type: ignore[no-untyped-call]
        stream, one, out = self._load
        with torch.cuda.stream(stream):
            for _ in range(_LOAD_STEPS):
                torch.mm(one, one, out=out)

    def _run(self, call: Call, tensors: list[Tensor], fences: Fences) -> tuple[Any, list[Tensor | None]]:
        """The gold's result and gradients for these tensors, which it may change."""
        if call.with_grad:
            for tensor, piece in zip(tensors, call.inputs.pieces, strict=True):
                tensor.requires_grad_(piece.requires_grad)
        function, value = self.prepared(call, tensors)
        seed_everything(self.drawing_seed)
        with torch.enable_grad() if call.with_grad else torch.no_grad(), fences:
            result = function(*value[0], **value[1])
            grads = [] if call.grads is None else gradients(result, tensors, call.grads.tensors())
        return portable(result), grads

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

        on = None if call.on is None else calls[call.on].result
        return bound(call.path, call.kind, self.recorder.resolve, on), replaced(call.value, real)
