"""One problem of `kernelbench_speed.py`: candidates judged, tuned, compared and timed; the best one's verdict as a row.

The same steps as `autotriton optimize`, arranged so that many problems share one GPU: a problem reserves the memory it
may need before it touches the device, correctness runs beside other problems, and whatever is timed runs alone.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import kernelbench_table as table

from autotriton.errors import AutoTritonError, TaskError
from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.channel import ChannelError
from autotriton.judge.pool import GpuLock
from autotriton.judge.processes import Processes
from autotriton.judge.sandbox.limits import Limits
from autotriton.propose.base import Proposer
from autotriton.tune import TileCache, tune
from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, Verdict

_INPUT_COPIES = 16
_CONTEXTS_BYTES = 3 << 30
"""GPU memory of a problem: so many times its inputs (fp64 oracle, arenas; as the judge reckons) and a few contexts."""
_SIZE_S = 120.0
_TUNED = "+tuned"


@dataclass(frozen=True)
class SolverOptions:
    device: str = "auto"
    tune_s: float = 10.0
    retune: bool = False
    jobs: int = 2
    candidates: int = 4
    repetitions: int = 3
    timing_s: float = 0.6
    timeout_s: float = 180.0
    cache: str | None = None
    """Folder of the tile cache, if not the user's."""
    tune_on_cpu: bool = False
    """In Triton's interpreter, which is for tests: the problems' own shapes are far too large."""


class Room:
    """GPU memory, handed out first come, first served."""

    def __init__(self, total_bytes: float) -> None:
        self.total = total_bytes
        self._free = total_bytes
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def hold(self, wanted_bytes: float) -> Iterator[None]:
        wanted, ticket = min(wanted_bytes, self.total), object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._queue[0] is ticket and self._free >= wanted)
            self._queue.popleft()
            self._free -= wanted
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()


class Gate:
    """The judge's lock around the GPU, as the tuner passes it."""

    def __init__(self, lock: GpuLock) -> None:
        self._lock = lock

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        self._lock.share()
        try:
            yield
        finally:
            self._lock.unshare()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        self._lock.seize()
        try:
            yield
        finally:
            self._lock.release()


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

    def add(self, candidate: Candidate, step: str, verdict: Verdict) -> None:
        ms = None if verdict.timing is None else verdict.timing.median_ms
        told = {"proposer": candidate.proposer, "step": step, "outcome": verdict.outcome, "ms": ms}
        self.attempts.append({**told, **({} if verdict.accepted else {"message": verdict.message[:300]})})


@dataclass(frozen=True)
class Version:
    """A correct candidate, and what the tuner made of it."""

    candidate: Candidate
    verdict: Verdict
    tuned: Candidate | None


class Solver:
    """Judges with one set of processes and one secret seed; used from many threads."""

    def __init__(self, options: SolverOptions, proposer: Proposer) -> None:
        self.options, self.proposer = options, proposer
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
        self._rough = self._beside(replace(base, tier=Tier.TIME, repetitions=1, timing_s=0.3, baselines=()))
        self._full = self._beside(replace(base, tier=Tier.TIME))
        # The reference as its own candidate: for the baselines of problems that have no correct kernel.
        self._plain = self._beside(replace(base, tier=Tier.TIME, repetitions=1, trust_candidate=True, admit=False))
        self.lock = GpuLock()
        gpu = self.processes.gpu() if self.device == "cuda" else None
        self.room = Room(math.inf if gpu is None else gpu.memory_bytes)

    def __enter__(self) -> Solver:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.close()

    def _beside(self, options: JudgeOptions) -> Judge:
        return Judge(options, processes=self.processes, seed=self._run.seed)

    # --- one problem --------------------------------------------------------------------------------------

    def solve(self, task: Task) -> table.Row:
        """The row of a problem: correct with its times, failed with the reason, or excluded. Raises if the judge
        broke.
        """
        trace = Trace()
        candidates, complaint = self._propose(task, trace)
        with self.room.hold(self._bytes(task)):
            try:
                found = self._best(task, candidates, trace)
            except TaskError as error:
                random = "random by itself" in str(error)
                status = table.EXCLUDED if random else table.FAILED
                return {"status": status, "reason": str(error), **_traced(trace)}
            finally:
                self.processes.references.forget(task)
            if found is not None:
                return {**_row(*found), **_traced(trace)}
            reasons = [f"{one['outcome']}: {one['message']}" for one in trace.attempts if "message" in one]
            text = reasons[-1] if reasons else f"no candidate: {complaint}"
            return {"status": table.FAILED, "reason": text, **self._baselines(task, trace), **_traced(trace)}

    def _propose(self, task: Task, trace: Trace) -> tuple[list[Candidate], str]:
        """Candidates, best guess first, and why there are no more where the proposer gave up."""
        found: list[Candidate] = []
        history: list[Attempt] = []
        with trace.step("propose"):
            try:
                for candidate in self.proposer.propose(task, history):
                    found.append(candidate)
                    if len(found) >= self.options.candidates:
                        break
            except AutoTritonError as error:
                return found, str(error)
            except Exception as error:  # noqa: BLE001 - compilers are foreign code; what came before still counts
                return found, f"{type(error).__name__}: {error}"
        return found, "the proposer had none"

    def _best(self, task: Task, candidates: list[Candidate], trace: Trace) -> tuple[Candidate, Verdict] | None:
        """The fastest correct version, with its full verdict."""
        correct = [found for candidate in candidates if (found := self._correct(task, candidate, trace)) is not None]
        if self.device != "cuda":
            return (correct[0].tuned or correct[0].candidate, correct[0].verdict) if correct else None
        for version in correct if len(correct) < 2 else self._ranked(task, correct, trace):
            timed = self._time(task, version, trace)
            if timed is not None:
                return timed
        return None

    def _correct(self, task: Task, candidate: Candidate, trace: Trace) -> Version | None:
        """A candidate that is correct, tuned where it can be."""
        with trace.step("judge"):
            verdict = self._judge(self._run, task, candidate.code)
        trace.add(candidate, "judge", verdict)
        return Version(candidate, verdict, self._tune(task, candidate, trace)) if verdict.accepted else None

    def _time(self, task: Task, version: Version, trace: Trace) -> tuple[Candidate, Verdict] | None:
        """Tuned, or as it was where the judge refuses that; a machine that cannot time leaves a correct kernel
        correct.
        """
        for candidate in (version.tuned, version.candidate):
            if candidate is None:
                continue
            try:
                with trace.step("time"):
                    verdict = self._judge(self._full, task, candidate.code)
            except AutoTritonError as error:
                notes = (*version.verdict.notes, f"not timed: {error}")
                return version.candidate, version.verdict.model_copy(update={"notes": notes})
            trace.add(candidate, "time", verdict)
            if verdict.accepted:
                return candidate, verdict
        return None

    def _tune(self, task: Task, candidate: Candidate, trace: Trace) -> Candidate | None:
        if not candidate.choices or self.options.tune_s <= 0 or not (self.device == "cuda" or self.options.tune_on_cpu):
            return None
        self.processes.references.forget(task)  # its memory is needed
        with trace.step("tune"):
            try:
                tuned = tune(
                    task,
                    candidate,
                    budget_s=self.options.tune_s,
                    cache=TileCache(self.options.cache),
                    retune=self.options.retune,
                    progress=trace.said.append,
                    gate=Gate(self.lock),
                    device=self.device,
                    jobs=self.options.jobs,
                )
            except Exception as error:  # noqa: BLE001 - an untuned kernel is better than none
                trace.said.append(f"tuning failed: {type(error).__name__}: {error}")
                return None
        return None if tuned is candidate else tuned.model_copy(update={"proposer": candidate.proposer + _TUNED})

    def _ranked(self, task: Task, versions: list[Version], trace: Trace) -> list[Version]:
        """Fastest first, by a rough timing without baselines; what the judge refuses there goes last."""
        times = [self._rough_ms(task, version.tuned or version.candidate, trace) for version in versions]
        return [versions[number] for number in sorted(range(len(versions)), key=lambda number: times[number])]

    def _rough_ms(self, task: Task, candidate: Candidate, trace: Trace) -> float:
        try:
            with trace.step("compare"):
                verdict = self._judge(self._rough, task, candidate.code)
        except AutoTritonError:
            return math.inf
        trace.add(candidate, "compare", verdict)
        return verdict.timing.median_ms if verdict.accepted and verdict.timing is not None else math.inf

    def _judge(self, judge: Judge, task: Task, code: str) -> Verdict:
        """A verdict beside others; where memory was short, another one alone."""
        try:
            with Gate(self.lock).shared():
                verdict = judge.judge(task, code, alone=self.lock.alone)
            short = verdict.outcome is Outcome.RUNTIME_ERROR and "out of memory" in verdict.message
        except TaskError as error:
            if self.device != "cuda" or "memory" not in str(error):
                raise
            short = True
        if not short:
            return verdict
        self.processes.references.forget(task)
        with Gate(self.lock).alone():
            return judge.judge(task, code)

    def _baselines(self, task: Task, trace: Trace) -> dict[str, Any]:
        """Times of eager and torch.compile for a problem we have no kernel for."""
        if self.device != "cuda":
            return {}
        try:
            with trace.step("baselines"):
                verdict = self._judge(self._plain, task, task.source)
        except AutoTritonError as error:
            return {"notes": [f"the baselines could not be measured: {error}"]}
        finally:
            self.processes.references.forget(task)
        return {"baselines_ms": _times(verdict), "notes": list(verdict.notes)}

    def _bytes(self, task: Task) -> float:
        """GPU memory the problem may take."""
        if self.device != "cuda":
            return 0.0
        process = self.processes.server(interpret=False).spawn(
            "reference", Limits(deadline_s=_SIZE_S, memory_bytes=64 << 30, allow_processes=True)
        )
        try:
            process.channel.send({"do": "size", "task": task.model_dump(mode="json")})
            size = process.channel.receive(_SIZE_S)[0].get("bytes")
        except ChannelError:
            size = None
        finally:
            process.end()
        return self.room.total / 4 if size is None else _INPUT_COPIES * float(size) + _CONTEXTS_BYTES


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
        "kernels": [kernel.model_dump(mode="json", exclude={"targets"}) for kernel in verdict.kernels],
        "notes": list(verdict.notes),
        "code": candidate.code,
    }
