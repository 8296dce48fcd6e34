"""The race's worker process: loads every candidate, compiles their kernels side by side, then times one after another.

Started by `nursery.py`. Only one candidate's model is on the device at a time.
"""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path
from types import ModuleType

import torch

from autotriton.tune import clock, subject
from autotriton.tune.ahead import Ahead
from autotriton.tune.messages import ALONE, SHARED, Parent, RaceRequest

_SAMPLES, _LONGEST_MS = 4, 100.0
_HOPELESS = 3.0
"""Who takes this many times longer than the best so far is not measured any more closely."""


def main(request_path: str, incoming: str, outgoing: str) -> None:
    request = RaceRequest.model_validate_json(Path(request_path).read_text(encoding="utf-8"))
    torch.set_num_threads(1)  # a fork must not inherit a pool whose threads are gone
    torch.set_grad_enabled(False)
    parent = Parent(int(incoming), int(outgoing))
    runners = []
    for number, path in request.paths.items():
        parent.tell("running", number=number)
        try:
            runners.append(Runner(number, subject.load(path, f"autotriton_candidate{number}"), request))
        except Exception:  # noqa: BLE001 - a candidate may fail in any way; the others are measured
            parent.tell("failed", number=number)
    _run(runners, request, parent)
    parent.tell("end")
    os._exit(0)  # compilers that are still at work go with it


class Runner:
    """One candidate."""

    def __init__(self, number: int, module: ModuleType, request: RaceRequest) -> None:
        self.number, self._module, self._request = number, module, request
        self.ahead = Ahead(module, request.capability if request.device == "cuda" else None, request.jobs)

    def build(self) -> subject.Subject:
        return subject.build(self._request.task, self._module, self._request.device)


def _run(runners: list[Runner], request: RaceRequest, parent: Parent) -> None:
    with parent.gate(SHARED):
        watch = clock.CudaClock() if request.device == "cuda" else clock.CpuClock()
        for runner in list(runners):
            parent.tell("running", number=runner.number)
            try:
                runner.ahead.collect(runner.build().forward)
            except Exception:  # noqa: BLE001 - see above
                runners.remove(runner)
                parent.tell("failed", number=runner.number)
            watch.give_back_memory()
    best = math.inf
    for runner in runners:
        parent.tell("running", number=runner.number)
        runner.ahead.wait(parent.left_s())
        try:
            ms = _time(runner, watch, parent, _HOPELESS * best)
            best = min(best, ms)
        except Exception:  # noqa: BLE001 - see above
            parent.tell("failed", number=runner.number)
            if not watch.healthy():
                os._exit(1)  # nothing more can run in this process
        else:
            parent.tell("timed", number=runner.number, ms=ms)
        watch.give_back_memory()


def _time(runner: Runner, watch: clock.Clock, parent: Parent, limit_ms: float) -> float:
    with parent.gate(SHARED):
        built = runner.build()
        built.forward()
        watch.settle(built.forward)
    with parent.gate(ALONE):
        watch.wait_until_quiet()
        (first,) = watch.samples(built.forward, 1)
        if first > limit_ms:
            return first
        more = max(2, min(_SAMPLES, int(_LONGEST_MS / max(first, 1e-3))))
        return statistics.median([first, *watch.samples(built.forward, more)])
