"""Results as a run leaves them."""

from __future__ import annotations

import pytest

from autotriton.loop import Failed, Result
from autotriton.types import Attempt, Candidate, Check, Kernel, Speedup, Target, Task, Timing

CODE = '"""y = 2 x"""\nimport triton\n\n\n@triton.jit\ndef kernel(x_ptr):\n    return 1.5  # <half>\n'


@pytest.fixture
def task():
    return Task(id="mine:rms_norm", source="source")


@pytest.fixture
def attempt(task, make_verdict):
    """An accepted attempt with everything measured, unless told otherwise."""

    def timing(ms):
        return Timing(median_ms=ms, p20_ms=ms * 0.9, p80_ms=ms * 1.1, samples=30, method="cuda events")

    def make(code=CODE, *, timed=True, verdict=None, error=None, proposer="compiler:templates"):
        measured = {
            "timing": timing(0.5),
            "baselines": {"eager": timing(1.0), "compile": timing(0.75)},
            "speedups": {
                "eager": Speedup(ratio=2.0, low=1.9, high=2.1),
                "compile": Speedup(ratio=1.5, low=1.4, high=1.6),
            },
            "roofline_share": 0.85,
            "peak_memory_bytes": 3 << 20,
        }
        found = make_verdict(
            message="correct in every case",
            checks=(
                Check(inputs="draw#1", passed=True, max_error=1e-9, reference_max_error=2e-9, allowed_error=1e-5),
                Check(inputs="spikes", passed=True, max_error=4e-6, reference_max_error=3e-6, allowed_error=1e-5),
            ),
            kernels=(Kernel(name="kernel", launches=2, targets=(Target(arch="sm_90", registers=64, spills=0),)),),
            notes=("reduced shapes",),
            **(measured if timed else {}),
        )
        return Attempt(
            run_id="run-1",
            task=task,
            candidate=Candidate(task_id=task.id, code=code, proposer=proposer),
            verdict=None if error else verdict or found,
            error=error,
        )

    return make


@pytest.fixture
def result(task, attempt):
    def make(*attempts, winner=0, failures=()):
        made = attempts or (attempt(),)
        chosen = None if winner is None else made[winner]
        return Result(task, tuple(made), chosen, tuple(Failed(who, error) for who, error in failures), 12.5)

    return make
