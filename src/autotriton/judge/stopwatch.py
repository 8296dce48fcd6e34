"""Timing one callable on the GPU, inside its own process: blocks of samples, every sample on fresh content.

The clock functions are taken before a candidate is loaded. Each sample: flush the L2, hold the stream busy until the
call is enqueued (so that launch overhead does not count as device time), record, call, record. Then, separately, the
latency a caller sees. Which answer of a block is checked is chosen by the parent after the block has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20  # exceeds the H200's 60 MB L2 (and any other's), so each sample starts cold
_WARMUP_S, _MIN_WARMUPS, _MAX_WARMUPS = 0.4, 4, 200
_SETTLED = 0.02
_synchronize = torch.cuda.synchronize
_sleep: Callable[[int], None] = torch.cuda._sleep
_new_event: Callable[..., Any] = torch.cuda.Event
_Call = Callable[[], Any]


@dataclass
class Stopwatch:
    """What is kept between blocks in one process."""

    flush: torch.Tensor | None = None
    cycles: int = 0
    answers: list[Any] = field(default_factory=list)

    def prepare(self) -> None:
        if self.flush is None:
            self.flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def warm_up(self, calls: Sequence[_Call]) -> dict[str, Any]:
        """Call until the time per call stops falling; learn how long enqueueing takes."""
        self.prepare()
        times: list[float] = []
        started, enqueue = perf_counter(), 0.0
        while len(times) < _MAX_WARMUPS and (
            len(times) < _MIN_WARMUPS or (not _settled(times) and perf_counter() - started < _WARMUP_S)
        ):
            before = perf_counter()
            calls[len(times) % len(calls)]()
            enqueue = perf_counter() - before
            _synchronize()
            times.append(perf_counter() - before)
        # Clock about 2 GHz: sleep twice as long as enqueueing takes, at least 20 us, at most 5 ms.
        self.cycles = int(min(max(2 * enqueue, 20e-6), 5e-3) * 2e9)
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        calls[0]()
        _synchronize()
        return {"warmups": len(times), "peak_bytes": torch.cuda.max_memory_allocated() - held}

    def block(self, calls: Sequence[_Call]) -> dict[str, Any]:
        """One sample per call: device times, then latency and enqueue time of one more round."""
        self.prepare()
        assert self.flush is not None
        marks, self.answers = [], []
        for call in calls:
            start, end = _new_event(enable_timing=True), _new_event(enable_timing=True)
            self.flush.zero_()
            _sleep(self.cycles)
            start.record()
            self.answers.append(call())
            end.record()
            marks.append((start, end))
        _synchronize()
        device = [start.elapsed_time(end) for start, end in marks]
        return {"device_ms": device, **_latency(calls[0])}


def _latency(call: _Call) -> dict[str, float]:
    _synchronize()
    before = perf_counter()
    call()
    enqueued = perf_counter()
    _synchronize()
    return {"latency_ms": (perf_counter() - before) * 1e3, "enqueue_ms": (enqueued - before) * 1e3}


def _settled(times: list[float]) -> bool:
    if len(times) < 8:
        return False
    recent, earlier = sorted(times[-4:])[1], sorted(times[-8:-4])[1]
    return abs(recent - earlier) <= _SETTLED * earlier
