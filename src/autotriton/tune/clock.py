"""Timing one call in the worker, and looking whether its result is still the same.

On a GPU: CUDA events, cold L2, and the stream held busy until the call is enqueued, as the judge times. On the CPU, for
Triton's interpreter, the wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from autotriton.idle import SPIN_CYCLES, wait_until_idle

_FLUSH_BYTES = 256 << 20  # exceeds any GPU's L2, so each sample starts cold
_SAMPLE = 1 << 20
"""Elements of a result that are looked at."""
_TOLERANCE = 1e-2
"""Relative rms: a sanity check, far above what another tile size changes. The judge decides afterwards."""

_new_event: Callable[..., Any] = torch.cuda.Event
_sleep: Callable[[int], None] = torch.cuda._sleep


class CpuClock:
    """The wall clock."""

    shared_limit = 0
    """Bytes of shared memory a block may have; nothing is compiled here."""

    def settle(self, call: Callable[[], Any]) -> None:
        """Before samples are taken."""

    def samples(self, call: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of each of `count` calls."""
        times = []
        for _ in range(count):
            started = perf_counter()
            call()
            times.append((perf_counter() - started) * 1e3)
        return times

    def wait_until_quiet(self) -> None:
        """Others may use the processor."""

    def healthy(self) -> bool:
        return True

    def give_back_memory(self) -> None:
        """What is not in use, to other processes."""


class CudaClock:
    """Device time."""

    def __init__(self) -> None:
        from triton.runtime import driver

        device = torch.cuda.current_device()
        properties = driver.active.utils.get_device_properties(device)
        self.shared_limit = int(properties["max_shared_mem"])
        self._spin_ms = SPIN_CYCLES / (properties.get("sm_clock_rate") or 1e6)  # kHz
        self._flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._cycles = 0

    def settle(self, call: Callable[[], Any]) -> None:
        """One call of what is loaded already, to learn how long enqueueing takes."""
        torch.cuda.synchronize()
        before = perf_counter()
        call()
        enqueue = perf_counter() - before
        torch.cuda.synchronize()
        # Clock about 2 GHz: sleep twice as long as enqueueing takes, at least 20 us, at most 5 ms.
        self._cycles = int(min(max(2 * enqueue, 20e-6), 5e-3) * 2e9)

    def samples(self, call: Callable[[], Any], count: int) -> list[float]:
        """Milliseconds of device time of each of `count` calls."""
        marks = []
        for _ in range(count):
            start, end = _new_event(enable_timing=True), _new_event(enable_timing=True)
            self._flush.zero_()
            _sleep(self._cycles)
            start.record()
            call()
            end.record()
            marks.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in marks]

    def wait_until_quiet(self) -> None:
        """Until what others had enqueued before they were stopped is done."""
        wait_until_idle(self._spin_ms)

    def healthy(self) -> bool:
        """False after an error that the CUDA context does not survive."""
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    def give_back_memory(self) -> None:
        torch.cuda.empty_cache()


Clock = CpuClock | CudaClock


def sampled(answer: Sequence[Any]) -> list[Any]:
    """An answer small enough to be kept: about a million elements of each tensor, evenly spread."""
    return [_sampled(leaf) if isinstance(leaf, Tensor) else leaf for leaf in answer]


def difference(answer: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """How two sampled answers differ, as one line; None when they agree."""
    if len(answer) != len(expected):
        return f"returns {len(answer)} values instead of {len(expected)}"
    for got, known in zip(answer, expected, strict=True):
        if isinstance(known, Tensor):
            problem = _differs(got, known)
            if problem is not None:
                return problem
        elif got != known and not (got != got and known != known):
            return f"returns {got!r} instead of {known!r}"
    return None


def _sampled(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    step = max(1, math.ceil(flat.numel() / _SAMPLE))
    return flat[::step].clone()


def _differs(got: Any, known: Tensor) -> str | None:
    if not isinstance(got, Tensor) or got.shape != known.shape or got.dtype != known.dtype:
        return "returns another shape or type"
    if known.numel() == 0:
        return None
    if not known.is_floating_point():
        share = float((got != known).double().mean())
        return f"{share:.1%} of the values differ" if share > _TOLERANCE else None
    one, other = got.double(), known.double()
    finite = other.isfinite()
    if bool((one.isfinite() != finite).any()):
        return "other elements are NaN or infinite"
    one, other = one[finite], other[finite]
    size, error = float(other.square().mean().sqrt()), float((one - other).square().mean().sqrt())
    return f"the result is {error / (size or 1.0):.1e} off" if error > _TOLERANCE * size else None
