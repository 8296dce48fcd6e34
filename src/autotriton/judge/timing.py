"""Tier 7: how fast, against eager and torch.compile, in a way that a fast lie cannot pass.

Candidate and baselines run in separate processes, in alternating order, on inputs that are new in every block;
answers given inside timed blocks are checked like any other. The parent keeps a clock of its own and compares. Only
here is "faster" decided, and only by the lower end of an interval. Blocks run in slices in which nobody else uses the
GPU; loading, compiling, warming up and checking happen outside them, beside others.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.judge.floor import Floor, Turn
from autotriton.judge.references import ReferenceClient
from autotriton.judge.rooflines import roofline_seconds
from autotriton.judge.trial import Bench, Decided, Trial
from autotriton.types import Outcome, Speedup, Tier, Timing

if TYPE_CHECKING:
    from autotriton.judge.judge import Judge

BASELINES = ("eager", "compile")
_BLOCKS, _SURE_BLOCKS = 10, 3
_SLICE_S = 0.2
"""Rounds of blocks begin within this much of a slice: long enough to be worth stopping the others for."""
_CONFIDENCE = 0.99
"""Wide on purpose: over 40 comparisons of a kernel with itself the interval should always hold 1.0."""
_RESAMPLES = 2000
_RESOLUTION_MS = 0.0005 / 2
"""CUDA events resolve about half a microsecond; a median cannot be trusted beyond half of that."""
_BEYOND_ROOFLINE = 0.5
_HIDDEN_SHARE, _HIDDEN_MS, _QUIETER = 0.5, 0.05, 0.25


@dataclass
class Samples:
    """Everything measured of one contestant, block by block."""

    blocks: list[list[float]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    enqueues: list[float] = field(default_factory=list)
    peak_bytes: int | None = None

    def add(self, answer: dict[str, Any]) -> None:
        self.blocks.append([float(value) for value in answer["device_ms"]])
        self.latencies.append(float(answer["latency_ms"]))
        self.enqueues.append(float(answer["enqueue_ms"]))

    def timing(self) -> Timing:
        values = sorted(value for block in self.blocks for value in block)
        return Timing(
            median_ms=statistics.median(values),
            p20_ms=_quantile(values, 0.2),
            p80_ms=_quantile(values, 0.8),
            samples=len(values),
            method="cuda events, cold L2, fresh inputs",
            latency_ms=statistics.median(self.latencies),
        )

    @property
    def unseen_ms(self) -> float:
        """Latency of a call that neither the device's events nor its launch account for.

        Of the quieter blocks: what is hidden is hidden in every call, while neighbours disturb only some.
        """
        measured = zip(self.blocks, self.latencies, self.enqueues, strict=True)
        unseen = sorted(latency - max(statistics.median(block), enqueue) for block, latency, enqueue in measured)
        return _quantile(unseen, _QUIETER)


def measure(trial: Trial, reference: ReferenceClient, judge: Judge) -> None:
    """Fill in the verdict's timing; raises Decided(SUSPECT or WRONG) when the clock does not add up."""
    unknown = [name for name in trial.options.baselines if name not in BASELINES]
    if unknown:
        raise UsageError(f"unknown baseline {unknown[0]!r}", hint=f"known: {', '.join(BASELINES)}")
    gpu = judge.processes.gpu()
    if gpu is None or gpu.spin_ms is None:
        raise PrerequisiteError("timing needs a CUDA device", hint="use --tier run")
    with trial.stage("time"):
        contest = Contest(trial, reference, judge.processes.floor, gpu.spin_ms)
        for _ in range(trial.options.repetitions):
            with judge.bench(trial, reference, "cuda", Tier.TIME) as bench:
                contest.repetition(bench)
        contest.conclude(judge)


class Contest:
    """Candidate and baselines, alternated."""

    def __init__(self, trial: Trial, reference: ReferenceClient, floor: Floor, spin_ms: float) -> None:
        self.trial, self.reference, self.floor, self._spin_ms = trial, reference, floor, spin_ms
        self.slices = self.noisy = 0
        self.turns: list[Turn] = []
        self.candidate = Samples()
        self.baselines = {name: Samples() for name in trial.options.baselines}
        self.missing: set[str] = set()

    def repetition(self, bench: Bench) -> None:
        """One fresh candidate process against the baselines, in blocks A B B A."""
        self._warm_up(bench)
        checked = {secrets.randbelow(_SURE_BLOCKS)} | (
            set() if self.reference.about["large"] else {secrets.randbelow(_BLOCKS)}
        )
        number, spent = 0, 0.0
        while number < _BLOCKS and (number < _SURE_BLOCKS or spent <= self.trial.options.timing_s):
            samples = 0
            with self._slice(bench):
                started = time.monotonic()
                while True:
                    samples = self._round(bench, number)
                    number += 1
                    took = time.monotonic() - started
                    enough = number >= _SURE_BLOCKS and spent + took > self.trial.options.timing_s
                    if number >= _BLOCKS or enough or took > _SLICE_S or number - 1 in checked:
                        break
                spent += took
            if number - 1 in checked:  # the last round's: the next one would overwrite its answers
                self._check_answer(bench, secrets.randbelow(samples))

    @contextmanager
    def _slice(self, bench: Bench) -> Iterator[None]:
        """The GPU to ourselves for a moment. The reference's lock comes first: another thread may share it."""
        with self.reference.lock, self.floor.alone(bench.process, self.reference.process) as turn:
            self.turns.append(turn)
            self.slices += 1
            self.noisy += not self.reference.ask("time", -1, phase="quiet", spin_ms=self._spin_ms)["quiet"]
            yield

    def _round(self, bench: Bench, number: int) -> int:
        """One block of every contestant, every other time in reverse; how many samples the candidate's had."""
        samples = 0
        order = [None, *self.baselines]
        for name in order if number % 2 == 0 else reversed(order):
            if name is None:
                samples = self._candidate_block(bench)
            elif name not in self.missing:
                self.baselines[name].add(self._baseline("block", name))
        return samples

    def _warm_up(self, bench: Bench) -> None:
        """Candidate and baselines side by side: most of it is compiling."""
        with ThreadPoolExecutor(1) as beside:
            # A candidate that chooses among configurations at its first call needs a clock nobody disturbs.
            with self._slice(bench) if "autotune" in self.trial.code else nullcontext():
                warmed = beside.submit(bench.ask, {"do": "time", "phase": "warm", **self._fill(bench)})
                if "autotune" in self.trial.code:
                    warmed.result()
            if not self.candidate.blocks:  # the reference's process stays the same, and warm
                self._warm_up_baselines()
            self.candidate.peak_bytes = int(warmed.result()["peak_bytes"])

    def _warm_up_baselines(self) -> None:
        for name, samples in self.baselines.items():
            if name in self.missing:
                continue
            answer = self._baseline("warm", name)
            if answer.get("failed"):
                self.missing.add(name)
                self.trial.notes.append(f"baseline {name} could not be measured: {answer['failed']}")
            else:
                samples.peak_bytes = int(answer["peak_bytes"])

    def _fill(self, bench: Bench) -> dict[str, Any]:
        return self.reference.ask("time", bench.session, phase="fill", seed=secrets.randbelow(2**31))

    def _candidate_block(self, bench: Bench) -> int:
        call = self._fill(bench)
        before = time.perf_counter()
        answer = bench.ask({"do": "time", "phase": "block", **call})
        wall_ms = (time.perf_counter() - before) * 1e3
        if sum(answer["device_ms"]) > wall_ms * 1.05 + 0.1 or min(answer["device_ms"]) <= 0:
            raise Decided(Outcome.SUSPECT, Tier.TIME, "the device clock and the judge's own clock disagree")
        self.candidate.add(answer)
        return len(answer["device_ms"])

    def _check_answer(self, bench: Bench, variant: int) -> None:
        answer = bench.ask({"do": "time", "phase": "answer", "variant": variant})
        kept = {key: answer.get(key) for key in ("leaves", "state", "structure", "aliases")}
        found = self.reference.ask("time", bench.session, phase="check", variant=variant, answer=kept)["check"]
        if not found["passed"]:
            raise Decided(Outcome.WRONG, Tier.TIME, f"an answer given while the clock ran is wrong: {found['detail']}")

    def _baseline(self, phase: str, name: str) -> dict[str, Any]:
        return self.reference.ask("time", -1, phase=phase, baseline=name, seed=secrets.randbelow(2**31))

    def conclude(self, judge: Judge) -> None:
        """Timing, speed-ups with intervals, the roofline, and whether to believe it."""
        self._account("slices", self.turns)
        self._account("baseline's choices", self.reference.turns)
        timing = self.candidate.timing()
        measured = {name: samples for name, samples in self.baselines.items() if samples.blocks}
        seconds = roofline_seconds(judge.processes.gpu(), self.reference.about, self.trial.task)
        share = None if seconds is None else seconds * 1e3 / timing.median_ms
        self.trial.more = {
            "timing": timing,
            "baselines": {name: samples.timing() for name, samples in measured.items()},
            "speedups": {name: speedup(samples.blocks, self.candidate.blocks) for name, samples in measured.items()},
            "roofline_share": share,
        }
        self.trial.peak_memory_bytes = self.candidate.peak_bytes
        peaks = {name: samples.peak_bytes for name, samples in measured.items() if samples.peak_bytes is not None}
        self.trial.more["baseline_memory_bytes"] = peaks
        if self.noisy:
            self.trial.notes.append(f"other work ran on the GPU in {self.noisy} of {self.slices} timed slices")
        eager = self.baselines.get("eager")
        if eager and eager.peak_bytes and (self.candidate.peak_bytes or 0) > 1.1 * eager.peak_bytes + (1 << 20):
            ratio = (self.candidate.peak_bytes or 0) / eager.peak_bytes
            self.trial.notes.append(f"peak memory is {ratio:.2f} times eager's")
        self._believe(timing, share)

    def _account(self, what: str, turns: Sequence[Turn]) -> None:
        """How much of the time the GPU was not shared, and what that cost those who share it."""
        for part, seconds in (
            ("waited", sum(turn.waited_s for turn in turns)),
            ("stopping", sum(turn.stopping_s for turn in turns)),
            ("alone", sum(turn.alone_s for turn in turns)),
        ):
            self.trial.stage_seconds[f"time: {what}, {part}"] = seconds

    def _believe(self, timing: Timing, share: float | None) -> None:
        if share is not None and share > 1 / _BEYOND_ROOFLINE:
            text = f"{timing.median_ms:.4f} ms is {share:.1f} times faster than the hardware can move or compute this"
            raise Decided(Outcome.SUSPECT, Tier.TIME, text)
        # Baselines hide nothing and run in the same slices: what the quietest of them shows is the machine's noise.
        unseen = [samples.unseen_ms for samples in self.baselines.values() if samples.blocks]
        noise = max(min(unseen, default=0.0), 0.0)
        hidden = self.candidate.unseen_ms - noise
        if hidden > _HIDDEN_MS and hidden > _HIDDEN_SHARE * ((timing.latency_ms or 0.0) - noise):
            raise Decided(
                Outcome.SUSPECT,
                Tier.TIME,
                f"{hidden:.3f} ms of work per call happen where device events do not see them",
            )


def speedup(baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], seed: int = 0) -> Speedup:
    """Median over median, with a bootstrap interval over blocks (samples of one block are not independent)."""
    ratio = _median_of(baseline) / _median_of(candidate)
    generator = random.Random(seed)
    ratios = sorted(_resampled(baseline, generator) / _resampled(candidate, generator) for _ in range(_RESAMPLES))
    tail = (1 - _CONFIDENCE) / 2
    slack = 1 + _RESOLUTION_MS / _median_of(baseline) / 2 + _RESOLUTION_MS / _median_of(candidate) / 2
    return Speedup(ratio=ratio, low=_quantile(ratios, tail) / slack, high=_quantile(ratios, 1 - tail) * slack)


def _median_of(blocks: Sequence[Sequence[float]]) -> float:
    return statistics.median(statistics.median(block) for block in blocks)


def _resampled(blocks: Sequence[Sequence[float]], generator: random.Random) -> float:
    return _median_of([blocks[generator.randrange(len(blocks))] for _ in blocks])


def _quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest of sorted values."""
    position = share * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (position - low)
