"""One problem of `kernelbench_speed.py`: candidates judged, tuned and timed; the best one's verdict as a row.

The same steps as `autotriton optimize`, arranged so that many problems share one GPU and its cores: races reserve their
memory where the judge reserves its own, correctness and compiling run beside other problems, and whatever
is timed has the GPU alone in short slices (the judge's floor). Candidates race as they are, the fastest are tuned and
race again, and the winner is judged with its times; the next one only where it failed.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import kernelbench_table as table
from kernelbench_baselines import BaselineCache, Baselines, of_verdict, with_compile
from kernelbench_proposals import Proposals, gather

from autotriton.errors import AutoTritonError, TaskError
from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.channel import ChannelError
from autotriton.judge.floor import Floor, Group
from autotriton.judge.pool import GpuLock
from autotriton.judge.processes import Processes
from autotriton.judge.room import Room
from autotriton.judge.sandbox.limits import Limits
from autotriton.propose.base import Proposer
from autotriton.tune import TileCache, race, tune
from autotriton.types import Candidate, Outcome, Policy, Task, Tier, Verdict

_SIZE_S = 120.0
_TUNED = "+tuned"
_TEMPLATES = "compiler:templates"
_CLOSE, _MOST = 1.1, 2
"""A candidate that takes this much longer than the fastest one before tuning may still win after it; so many are
tuned.
"""
_RANDOM = "forward is random"
"""What the compiler says of a task no kernel can be compared with."""
_RACE_S = 60.0
_LEAST_TUNE_S = 0.5
"""For each kernel of a candidate; with less it is not tuned."""


@dataclass(frozen=True)
class SolverOptions:
    device: str = "auto"
    tune_s: float = 10.0
    retune: bool = False
    jobs: int = 2
    races: int = 8
    """Problems whose candidates race and are tuned at once: that is mostly compiling."""
    candidates: int = 4
    kernels: int = 60
    """Of all candidates of a problem together; the first one is tried however many it has."""
    repetitions: int = 3
    timing_s: float = 0.6
    timeout_s: float = 180.0
    cache: str | None = None
    """Folder of the tile cache, if not the user's."""
    fresh_baselines: bool = False
    """Measure eager and torch.compile again, whatever is known of them."""
    tune_on_cpu: bool = False
    """In Triton's interpreter, which is for tests: the problems' own shapes are far too large."""


class Gate:
    """The floor of the judge's processes, as a tuner passes it: its worker stops while others time something."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._group: Group | None = None

    def started(self, group: int) -> None:
        self._group = self._floor.admit(lambda: Group(group))

    def shared(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def alone(self) -> AbstractContextManager[None]:
        return self._floor.alone(self._group) if self._group is not None else self._floor.alone()


@dataclass
class Trace:
    """What was tried on one problem, and how long each step took."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """By the tuner."""

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - started, 2)

    @contextlib.contextmanager
    def waiting(self, for_others: AbstractContextManager[None]) -> Iterator[None]:
        """Part of the step it happens in, and a step of its own."""
        with self.step("wait"), for_others:
            yield

    def add(self, candidate: Candidate, step: str, verdict: Verdict) -> None:
        ms = None if verdict.timing is None else verdict.timing.median_ms
        stages = {name: round(seconds, 1) for name, seconds in verdict.stage_seconds.items() if seconds > 0.5}
        told = {"proposer": candidate.proposer, "step": step, "outcome": verdict.outcome, "ms": ms, "stages": stages}
        self.attempts.append({**told, **({} if verdict.accepted else {"message": verdict.message[:300]})})


class Solver:
    """Judges with one set of processes and one secret seed; used from many threads."""

    def __init__(self, options: SolverOptions, baselines: BaselineCache | None = None) -> None:
        self.options = options
        self.processes = Processes()
        self.device = self.processes.device(options.device)
        base = JudgeOptions(
            policy=Policy.STRICT,
            # Without a GPU at reduced shapes: the problems' own are far too large for Triton's interpreter.
            tier=Tier.RUN if self.device == "cuda" else Tier.COMPILE,
            device=options.device,
            targets=("sm_90",),
            allow_degenerate=True,
            timeout_s=options.timeout_s,
            repetitions=options.repetitions,
            timing_s=options.timing_s,
        )
        self._run = Judge(base, processes=self.processes)
        self._full = self._beside(replace(base, tier=Tier.TIME))
        # Where torch.compile's time is known from before.
        self._eager = self._beside(replace(base, tier=Tier.TIME, baselines=("eager",)))
        # The reference as its own candidate: for the baselines of problems that have no correct kernel.
        self._plain = self._beside(replace(base, tier=Tier.TIME, repetitions=1, trust_candidate=True, admit=False))
        self.baselines = baselines
        self._fresh: set[str] = set()
        """Tasks whose baselines were measured in this run."""
        self.lock = GpuLock()
        self.processes.references_server()  # it takes a while to start
        self.room = self.processes.references.room if self.device == "cuda" else Room(math.inf)
        self.races = threading.Semaphore(options.races)

    def __enter__(self) -> Solver:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.close()

    def _beside(self, options: JudgeOptions) -> Judge:
        return Judge(options, processes=self.processes, seed=self._run.seed)

    # --- one problem --------------------------------------------------------------------------------------

    def solve(self, task: Task, proposer: Proposer) -> table.Row:
        """The row of a problem: correct with its times, failed with the reason, or excluded. Raises if the judge
        broke.
        """
        trace = Trace()
        with trace.step("propose"):
            proposals = gather(proposer, task, self.options.candidates)
            racing = affordable(proposals.candidates, self.options.kernels)
        with self._place(trace, race_bytes(self._size(task), self.room.total)):
            ranked = self._ranked(task, racing, trace)
        ranked += [one for one in proposals.candidates if one not in racing]
        try:
            return self._decide(task, proposals, ranked, trace)
        finally:
            self.processes.references.forget(task)

    @contextlib.contextmanager
    def _place(self, trace: Trace, nbytes: float) -> Iterator[None]:
        """One's turn to compile, and memory on the GPU; waiting for them is a step of its own."""
        with contextlib.ExitStack() as held:
            with trace.step("wait"):
                held.enter_context(self.races)
                held.enter_context(self.room.hold(nbytes))
            yield

    def _decide(self, task: Task, proposals: Proposals, ranked: Sequence[Candidate], trace: Trace) -> table.Row:
        try:
            found = self._best(task, proposals.candidates, ranked, trace)
        except TaskError as error:
            random = "random by itself" in str(error)
            status = table.EXCLUDED if random else table.FAILED
            return {"status": status, "reason": str(error), **_traced(trace)}
        if found is not None:
            return {**self._row(task, *found), **_traced(trace)}
        reasons = [f"{one['outcome']}: {one['message']}" for one in trace.attempts if "message" in one]
        text = reasons[-1] if reasons else f"no candidate: {proposals.complaint}"
        if not reasons and _RANDOM in proposals.complaint:
            return {"status": table.EXCLUDED, "reason": proposals.complaint, **_traced(trace)}
        return {"status": table.FAILED, "reason": text, **self._baselines(task, trace), **_traced(trace)}

    def _ranked(self, task: Task, candidates: Sequence[Candidate], trace: Trace) -> list[Candidate]:
        """In the order in which they are judged: the fastest first; those that may win are tuned and race again."""
        raced = self._raced(task, candidates, trace)
        limit = _CLOSE * raced[0][1] if raced else math.inf
        close = [candidate for candidate, ms in raced[:_MOST] if ms <= limit]
        tuned = [made for one in close if self._tunable(one) and (made := self._tune(task, one, trace)) is not None]
        rest = [candidate for candidate, _ in raced if candidate not in close]
        again = self._raced(task, [*tuned, *close], trace) if tuned else [(one, math.inf) for one in close]
        return [*(candidate for candidate, _ in again), *rest]

    def _best(
        self, task: Task, candidates: Sequence[Candidate], ranked: Sequence[Candidate], trace: Trace
    ) -> tuple[Candidate, Verdict] | None:
        """The first correct candidate with its full verdict."""
        found: tuple[Candidate, Verdict] | None = None
        for candidate in ranked:
            found = self._timed(task, candidate, trace)
            if found is not None:
                break
        self._check_engine(task, candidates, trace)
        return found

    def _raced(self, task: Task, candidates: Sequence[Candidate], trace: Trace) -> list[tuple[Candidate, float]]:
        """Fastest first, with their times; as given where nothing can be timed."""
        if self.device != "cuda" or len(candidates) < 2:
            return [(candidate, math.inf) for candidate in candidates]
        with trace.step("race"):
            try:
                gate = Gate(self.processes.floor)
                times = race(task, candidates, budget_s=_RACE_S, gate=gate, jobs=self.options.jobs)
            except Exception as error:  # noqa: BLE001 - then they are judged in their own order
                trace.said.append(f"the race failed: {type(error).__name__}: {error}")
                times = [None] * len(candidates)
        for candidate, ms in zip(candidates, times, strict=True):
            trace.attempts.append({"proposer": candidate.proposer, "step": "race", "ms": ms})
        ranked = [(math.inf if ms is None else ms, number) for number, ms in enumerate(times)]
        return [(candidates[number], ms) for ms, number in sorted(ranked)]

    def _check_engine(self, task: Task, candidates: Sequence[Candidate], trace: Trace) -> None:
        """Whether the templates alone are correct is asked of every problem, also where something else wins."""
        judged = {one["proposer"].removesuffix(_TUNED) for one in trace.attempts if one.get("outcome")}
        own = next((candidate for candidate in candidates if candidate.proposer == _TEMPLATES), None)
        if own is not None and not any(name.startswith(_TEMPLATES) for name in judged):
            with trace.step("judge"):
                trace.add(own, "judge", self._judge(self._run, task, own.code, trace))

    def _timed(self, task: Task, candidate: Candidate, trace: Trace) -> tuple[Candidate, Verdict] | None:
        """The full verdict where it is accepted; a machine that cannot time leaves a correct kernel correct."""
        if self.device != "cuda":
            judge, step = self._run, "judge"
        else:
            judge, step = self._full if self._known(task) is None else self._eager, "time"
        try:
            with trace.step(step):
                verdict = self._judge(judge, task, candidate.code, trace)
        except AutoTritonError as error:
            if step == "judge":
                raise
            correct = self._judge(self._run, task, candidate.code, trace)
            trace.add(candidate, "judge", correct)
            notes = (*correct.notes, f"not timed: {error}")
            return (candidate, correct.model_copy(update={"notes": notes})) if correct.accepted else None
        trace.add(candidate, step, verdict)
        measured = of_verdict(verdict)
        if measured is not None and self.baselines is not None and self._known(task) is None:
            self.baselines.put(task, measured)
            self._fresh.add(task.hash)
        return (candidate, verdict) if verdict.accepted else None

    def _known(self, task: Task) -> Baselines | None:
        """Times from an earlier run; what this run measures stays in this run's verdicts."""
        if self.baselines is None or self.options.fresh_baselines or task.hash in self._fresh:
            return None
        return self.baselines.get(task)

    def _tunable(self, candidate: Candidate) -> bool:
        # Networks of many kernels would use up the time without measuring one of them properly.
        wanted = bool(candidate.choices) and self.options.tune_s >= len(candidate.choices) * _LEAST_TUNE_S
        return wanted and (self.device == "cuda" or self.options.tune_on_cpu)

    def _tune(self, task: Task, candidate: Candidate, trace: Trace) -> Candidate | None:
        with trace.step("tune"):
            try:
                tuned = tune(
                    task,
                    candidate,
                    budget_s=self.options.tune_s,
                    cache=TileCache(self.options.cache),
                    retune=self.options.retune,
                    progress=trace.said.append,
                    gate=Gate(self.processes.floor),
                    device=self.device,
                    jobs=self.options.jobs,
                )
            except Exception as error:  # noqa: BLE001 - an untuned kernel is better than none
                trace.said.append(f"tuning failed: {type(error).__name__}: {error}")
                return None
        return None if tuned is candidate else tuned.model_copy(update={"proposer": candidate.proposer + _TUNED})

    def _judge(self, judge: Judge, task: Task, code: str, trace: Trace) -> Verdict:
        """A verdict beside others; where memory was short, another one with all of it."""
        self.lock.share()
        try:
            verdict = judge.judge(task, code, aside=lambda: trace.waiting(self.lock.aside()))
            short = verdict.outcome is Outcome.RUNTIME_ERROR and "out of memory" in verdict.message
        except TaskError as error:
            if self.device != "cuda" or "memory" not in str(error):
                raise
            short = True
        finally:
            self.lock.unshare()
        if not short:
            return verdict
        self.processes.references.forget(task)
        self.lock.seize()
        try:
            return judge.judge(task, code, aside=lambda: trace.waiting(self.lock.aside_of_one()), whole_gpu=True)
        finally:
            self.lock.release()

    def _baselines(self, task: Task, trace: Trace) -> dict[str, Any]:
        """Times of eager and torch.compile for a problem we have no kernel for."""
        if self.device != "cuda":
            return {}
        if (known := self._known(task)) is not None:
            return {"baselines_ms": known.times(), "cached_baselines": True}
        try:
            with trace.step("baselines"):
                verdict = self._judge(self._plain, task, task.source, trace)
        except AutoTritonError as error:
            return {"notes": [f"the baselines could not be measured: {error}"]}
        finally:
            self.processes.references.forget(task)
        if (measured := of_verdict(verdict)) is not None and self.baselines is not None:
            self.baselines.put(task, measured)
        return {"baselines_ms": _times(verdict), "notes": list(verdict.notes)}

    def _row(self, task: Task, candidate: Candidate, verdict: Verdict) -> table.Row:
        row = _row(candidate, verdict)
        known = self._known(task)
        if known is None or verdict.timing is None:
            return row
        notes = [*row["notes"], *([known.note] if known.note else [])]
        speedups, times = with_compile(row["speedups"], known), {**known.times(), **row["baselines_ms"]}
        return {**row, "speedups": speedups, "baselines_ms": times, "notes": notes, "cached_baselines": True}

    def _size(self, task: Task) -> dict[str, Any]:
        """Bytes of the task's inputs, outputs and peak; nothing without a GPU."""
        if self.device != "cuda":
            return {}
        process = self.processes.references_server().spawn(
            "reference", Limits(deadline_s=_SIZE_S, memory_bytes=64 << 30, allow_processes=True)
        )
        try:
            process.channel.send({"do": "size", "task": task.model_dump(mode="json")})
            return process.channel.receive(_SIZE_S)[0]
        except ChannelError:
            return {"bytes": None}
        finally:
            process.end()


def affordable(candidates: Sequence[Candidate], kernels: int) -> list[Candidate]:
    """Candidates in their order as long as there are not too many kernels to compile: whole networks have hundreds."""
    counts = itertools.accumulate(candidate.code.count("@triton.jit") for candidate in candidates)
    return [
        one
        for number, (one, count) in enumerate(zip(candidates, counts, strict=True))
        if not number or count <= kernels
    ]


def race_bytes(size: dict[str, Any], total: float) -> float:
    """What a race or a search takes of the GPU: a forward pass, calls whose results are kept, a flush buffer."""
    if not size:
        return 0.0
    peak = size.get("peak_bytes")
    return total / 4 if peak is None else min(total, 2.0 * float(peak) + (1 << 30))


def _times(verdict: Verdict) -> dict[str, float]:
    return {name: timing.median_ms for name, timing in verdict.baselines.items()}


def _traced(trace: Trace) -> dict[str, Any]:
    return {"attempts": trace.attempts, "seconds": trace.seconds, "tuning": trace.said}


def _row(candidate: Candidate, verdict: Verdict) -> table.Row:
    return {
        "status": table.CORRECT,
        "proposer": candidate.proposer,
        "candidate": candidate.id,
        "ms": None if verdict.timing is None else verdict.timing.median_ms,
        "baselines_ms": _times(verdict),
        "speedups": {name: speedup.model_dump() for name, speedup in verdict.speedups.items()},
        "roofline_share": verdict.roofline_share,
        "peak_memory_bytes": verdict.peak_memory_bytes,
        "baseline_memory_bytes": verdict.baseline_memory_bytes,
        "kernels": [kernel.model_dump(mode="json", exclude={"targets"}) for kernel in verdict.kernels],
        "notes": list(verdict.notes),
        "code": candidate.code,
    }
