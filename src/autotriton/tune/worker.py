"""The worker process: runs the candidate on the GPU, tries settings wrapper by wrapper, and reports every measurement.

Started by `nursery.py`. Order: fork the compilers, build the model, compile its own
kernels, record the calls of one forward pass, compile the alternatives, measure. The tuner (`tuner.py`) decides what
wins, and starts a new worker when this one dies.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from autotriton.tune import clock, prune, recording, search, subject
from autotriton.tune.ahead import Ahead, Sorted
from autotriton.tune.messages import ALONE, SHARED, Parent, Request

_ROUGH = 3
_RUNS_PER_SETTING = 8
"""Runs a setting takes on average over the whole search, for planning."""
_LEAST_COMPILE_SHARE = 0.4
_LONGEST_MS = 500.0
"""For one setting in one round: slow kernels are less noisy and need fewer runs."""
_LOST = 3
"""Exit status after an error the CUDA context did not survive."""


def main(request_path: str, incoming: str, outgoing: str) -> None:
    request = Request.model_validate_json(Path(request_path).read_text(encoding="utf-8"))
    torch.set_num_threads(1)  # a fork must not inherit a pool whose threads are gone
    torch.set_grad_enabled(False)
    module = subject.load(request.code_path)
    ahead = Ahead(module, request.capability if request.device == "cuda" else None, request.jobs)
    try:
        Worker(request, module, ahead, Parent(int(incoming), int(outgoing))).run()
    finally:
        ahead.close()


class Worker:
    """One candidate on one device."""

    def __init__(self, request: Request, module: ModuleType, ahead: Ahead, parent: Parent) -> None:
        self.request, self.module, self.ahead, self.parent = request, module, ahead, parent
        self.calls: recording.Calls = {}
        self.expected: dict[str, dict[str, list[Any]]] = {}
        self.pass_ms: dict[str, float] = {}
        """One run of each kind of call of a wrapper, roughly."""
        self.ready: set[tuple[str, int]] = set()
        self.clock: clock.Clock

    def run(self) -> None:
        with self.parent.gate(SHARED):
            built = subject.build(self.request.task, self.module, self.request.device)
            self.clock = clock.CudaClock() if self.request.device == "cuda" else clock.CpuClock()
            self.ahead.collect(built.forward)
        self.ahead.wait(self.parent.left_s())
        with self.parent.gate(SHARED):
            shares = self._record(built)
            self._collect(shares)
            self.clock.give_back_memory()
        self.ahead.wait(self._compile_s(list(shares)))
        with self.parent.gate(SHARED):
            found = {name: self._sorted(name) for name in shares}
        with self.parent.gate(ALONE):
            self.clock.wait_until_quiet()
            ends = search.time_slices(shares, self.parent.left_s())
            started = time.monotonic()
            for name in shares:
                self._tune(name, found[name], started + ends[name])
        self.parent.tell("end")

    # --- what there is to do ------------------------------------------------------------------------------

    def _record(self, built: subject.Subject) -> dict[str, float]:
        """Runs the model once for real; the share of the time of each wrapper that is worth tuning and not known."""
        choices = self.request.choices
        names = [name for name in choices if len(choices[name]) > 1 and callable(getattr(self.module, name, None))]
        with recording.recorded(self.module, names) as self.calls:
            built.forward()
        self.expected = {
            name: {key: clock.sampled(call.answer()) for key, call in calls.items()}
            for name, calls in self.calls.items()
        }
        times = {name: self._rough_ms(name) for name, calls in self.calls.items() if calls}
        told = {
            name: {"ms": times[name], "calls": {key: call.count for key, call in self.calls[name].items()}}
            for name in times
        }
        skip = set(self.parent.ask("calls", wrappers=told)["skip"])
        return {name: share for name, share in search.worth_tuning(times).items() if name not in skip}

    def _rough_ms(self, name: str) -> float:
        """Time the wrapper takes in one forward pass."""
        total = self.pass_ms[name] = 0.0
        for call in self.calls[name].values():
            self.clock.settle(call)
            ms = statistics.median(self.clock.samples(call, _ROUGH))
            self.pass_ms[name] += ms
            total += call.count * ms
        return total

    def _collect(self, shares: dict[str, float]) -> None:
        """Sends every setting's kernels to the compilers, in the order in which they are worth waiting for."""
        for name, setting in search.by_promise({name: self._settings(name) for name in shares}, shares):
            self._use(name, setting)
            for call in self.calls[name].values():
                self.ahead.collect(call, (name, setting))
        for name in shares:
            self._use(name, search.FIRST)

    def _settings(self, name: str) -> list[int]:
        dropped = self.request.dropped.get(name, ())
        return [number for number in range(len(self.request.choices[name])) if number not in dropped]

    def _compile_s(self, names: Sequence[str]) -> float:
        """Seconds to wait for compilers, so that enough is left for measuring."""
        left = self.parent.left_s()
        measuring_ms = sum(len(self._settings(name)) * _RUNS_PER_SETTING * (self.pass_ms[name] + 1) for name in names)
        return max(left * _LEAST_COMPILE_SHARE, left - measuring_ms / 1e3)

    # --- one wrapper --------------------------------------------------------------------------------------

    def _sorted(self, name: str) -> Sorted:
        """What can be measured, best guess first, but what spills registers last; loads it."""
        found = self.ahead.sort(name, self._settings(name), self.clock.shared_limit)
        for setting, reason in found.refused.items():
            self.parent.tell("dropped", wrapper=name, setting=setting, reason=reason, lost=False)
        spills: dict[int, int] = {}
        try:
            for setting in found.usable:
                if self.parent.left_s() <= 0:
                    break
                self._use(name, setting)
                spills[setting] = self.ahead.spills(self.calls[name].values())
        finally:
            self._use(name, search.FIRST)
        return replace(found, usable=prune.in_order(found.usable, spills))

    def _tune(self, name: str, found: Sorted, deadline: float) -> None:
        try:
            finished = search.halve(
                found.usable,
                lambda setting, repetitions, limit: self._measure(name, setting, repetitions, limit),
                lambda: time.monotonic() < deadline,
            )
        finally:
            self._use(name, search.FIRST)
        if finished and not found.unfinished:
            self.parent.tell("finished", wrapper=name)

    def _measure(self, name: str, setting: int, repetitions: int, limit: float) -> float | None:
        known = self.request.known.get(name, {}).get(setting)
        if known is not None and known[1] >= repetitions:
            return known[0]
        self.parent.tell("trying", wrapper=name, setting=setting)
        self._use(name, setting)
        try:
            if (name, setting) not in self.ready:
                self._try(name)
                self.ready.add((name, setting))
            ms = self._time(name, repetitions, limit)
        except Exception as error:  # noqa: BLE001 - a setting may fail in any way; the next one is tried
            self._drop(name, setting, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return None
        self.parent.tell("measured", wrapper=name, setting=setting, ms=ms, repetitions=repetitions)
        return ms

    def _use(self, name: str, setting: int) -> None:
        """In place: the file may hold on to its entry."""
        entry = self.module.TILES[name]
        entry.clear()
        entry.update(self.request.choices[name][setting])

    def _try(self, name: str) -> None:
        """Runs each call once and compares with what the file's own setting answers."""
        for key, call in self.calls[name].items():
            problem = clock.difference(clock.sampled(call.answer()), self.expected[name][key])
            if problem is not None:
                raise ArithmeticError(f"another result: {problem}")

    def _time(self, name: str, repetitions: int, limit: float) -> float:
        """Median milliseconds over all calls of a forward pass; after one run when that is beyond the limit already."""
        calls = self.calls[name].values()
        first = []
        for call in calls:
            self.clock.settle(call)
            first.append(self.clock.samples(call, 1))
        if sum(call.count * one[0] for call, one in zip(calls, first, strict=True)) > limit:
            repetitions = 1
        repetitions = min(repetitions, max(3, int(_LONGEST_MS / max(sum(one[0] for one in first), 1e-3))))
        total = 0.0
        for call, one in zip(calls, first, strict=True):
            total += call.count * statistics.median([*one, *self.clock.samples(call, repetitions - 1)])
            call.restore()
        return total if math.isfinite(total) else math.inf

    def _drop(self, name: str, setting: int, reason: str) -> None:
        lost = not self.clock.healthy()
        self.parent.tell("dropped", wrapper=name, setting=setting, reason=reason, lost=lost)
        if lost:
            os._exit(_LOST)  # nothing more can run in this process
