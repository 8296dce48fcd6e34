"""What only a device can show: GPU-only cheats, timing, endless kernels, sticky errors, memory given back.

The whole file is meant to take less than 90 seconds on an H200 with 16 cores.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotriton.judge import Judge, JudgeOptions, judge_many
from autotriton.judge.footprint import footprint
from autotriton.judge.processes import Processes
from autotriton.judge.references import gpu_bytes_of
from autotriton.types import Outcome, Task, Tier, Verdict

pytestmark = pytest.mark.gpu

TIMEOUT_S = 30.0

_path = Path(__file__).parent.parent / "cheats" / "corpus.py"
_spec = importlib.util.spec_from_file_location("cheats_corpus", _path)
assert _spec is not None
assert _spec.loader is not None
corpus = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("cheats_corpus", corpus)
_spec.loader.exec_module(corpus)

# Denial has tests of its own below, and the convolution takes 20 seconds in the interpreter, which comes first.
_OTHERS = [case for case in corpus.load() if case.family != "denial" and case.name != "conv2d_direct"]
SUBSET = [case for number, case in enumerate(_OTHERS) if case.gpu_only or number % 5 == 0]

# Beyond what is tried in the interpreter first (2^17 elements), so that the GPU gets whatever a candidate does.
SOFTMAX = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(2048, 2000)]

def get_init_inputs():
    return []
"""
CODE = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, flag_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    {before}
    x = tl.load(x_ptr + row * width + at, mask=keep, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * width + at, e / tl.sum(e, axis=0), mask=keep)

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = None

    def forward(self, x):
        y = torch.empty_like(x)
        flag = torch.zeros(1, dtype=torch.int32, device=x.device)
        rows = {rows}
        kernel[(rows,)](x, y, flag, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
TASK = Task(id="softmax", source=SOFTMAX)


def candidate(before: str = "pass", rows: str = "x.shape[0]") -> str:
    return CODE.replace("{before}", before).replace("{rows}", rows)


HONEST = candidate()
ENDLESS = candidate(before="while tl.atomic_add(flag_ptr, 0) == 0:\n        pass")
WILD = candidate(before="keep = tl.load(x_ptr + at.to(tl.int64) + (1 << 42)) > 0")


@pytest.fixture(scope="module")
def processes():
    held = Processes()
    if held.gpu() is None:
        held.close()
        pytest.skip("no CUDA device")
    yield held
    held.close()


@pytest.fixture
def decide(processes):
    def decide(code: str, task: Task = TASK, **options) -> Verdict:
        # One seed for all, so that they share a reference: here the device is on trial, not secrecy.
        known = {"device": "cuda", "timeout_s": TIMEOUT_S, "seed": 11, **options}
        return Judge(JudgeOptions(**known), processes=processes).judge(task, code)

    return decide


def accepted(verdict: Verdict) -> Verdict:
    assert verdict.accepted, f"{verdict.outcome} at {verdict.tier}: {verdict.message}"
    return verdict


# --- the corpus -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judgements(processes):
    jobs = [
        (Task(id=case.task_path.stem, source=case.task_path.read_text()), case.code_path.read_text()) for case in SUBSET
    ]
    judge = Judge(JudgeOptions(device="cuda", timeout_s=TIMEOUT_S, allow_degenerate=True), processes=processes)
    return list(judge_many(jobs, judge=judge))


def test_many_in_many_out(judgements):
    assert len(SUBSET) >= 40
    assert sorted(found.index for found in judgements) == list(range(len(SUBSET)))
    assert [found.error for found in judgements if found.verdict is None] == []


@pytest.mark.parametrize(("number", "case"), [pytest.param(n, case, id=case.name) for n, case in enumerate(SUBSET)])
def test_the_judge_answers_as_expected(number, case, judgements):
    (found,) = (found for found in judgements if found.index == number)
    assert found.verdict is not None, f"no verdict: {found.error}"
    answer = "accept" if found.verdict.accepted else "reject"
    assert answer == case.expected, f"{found.verdict.outcome} at {found.verdict.tier}: {found.verdict.message}"


def test_a_kernel_that_ran_here_is_described_as_compiled_here(decide):
    found = accepted(decide(HONEST))
    assert found.tier is Tier.RUN
    assert found.machine is not None
    assert found.machine.gpu
    (kernel,) = found.kernels
    assert kernel.launches == 1
    assert kernel.registers is not None


# --- time -------------------------------------------------------------------------------------------------


def test_an_honest_kernel_is_timed_against_both_baselines(decide):
    found = accepted(decide(HONEST, tier=Tier.TIME, repetitions=1, timing_s=0.5, timeout_s=60.0))
    assert found.timing is not None
    assert set(found.speedups) == set(found.baselines) == {"eager", "compile"}, found.notes
    assert all(speedup.low <= speedup.ratio <= speedup.high for speedup in found.speedups.values())
    assert found.timing.p20_ms <= found.timing.median_ms <= found.timing.p80_ms
    # 2048 x 2000 floats in and out are 33 MB: 7 microseconds at an H200's bandwidth, and no kernel needs a second.
    assert 0.002 < found.timing.median_ms < 1000
    assert found.roofline_share is None or 0 < found.roofline_share < 2


def test_the_reference_as_candidate_is_as_fast_as_itself(decide):
    options = {"tier": Tier.TIME, "trust_candidate": True, "baselines": ("eager",), "repetitions": 1, "timing_s": 0.5}
    found = accepted(decide(SOFTMAX, **options))
    assert found.speedups["eager"].ratio == pytest.approx(1.0, abs=0.1)


def test_work_skipped_in_timed_calls_is_not_accepted(decide):
    # Correctness runs show one address only; timed ones rotate through eight, and every answer may be asked for.
    first = "self.first if self.first is not None else x.data_ptr()\n        self.first = rows"
    skipping = candidate(rows=f"{first}\n        rows = x.shape[0] if x.data_ptr() == self.first else 16")
    accepted(decide(skipping))
    found = decide(skipping, tier=Tier.TIME, baselines=("eager",), timing_s=0.3)
    assert found.outcome is Outcome.WRONG, f"{found.outcome}: {found.message}"
    assert found.tier is Tier.TIME
    assert "while the clock ran" in found.message


def test_what_is_timed_beside_others_is_as_fast_as_alone(decide, processes):
    """Neighbours are stopped for the timed blocks: without that the kernel would take several times as long."""
    options = {"tier": Tier.TIME, "baselines": ("eager",), "repetitions": 1, "timing_s": 0.5}
    alone = accepted(decide(HONEST, **options))
    timing = Judge(JudgeOptions(device="cuda", timeout_s=120.0, seed=11, **options), processes=processes)
    busy = Judge(JudgeOptions(device="cuda", timeout_s=120.0, seed=12), processes=processes)
    with ThreadPoolExecutor(4) as pool:
        found = pool.submit(timing.judge, TASK, HONEST)
        neighbours = []
        while not found.done() and len(neighbours) < 60:
            neighbours += [pool.submit(busy.judge, TASK, HONEST + f"# {number}") for number in range(3)]
            for one in neighbours[-3:]:
                accepted(one.result())
        beside = accepted(found.result())
    assert neighbours
    assert beside.timing is not None
    assert alone.timing is not None
    assert beside.timing.median_ms == pytest.approx(alone.timing.median_ms, rel=0.15)
    assert beside.speedups["eager"].ratio == pytest.approx(alone.speedups["eager"].ratio, rel=0.15)


def test_the_memory_of_candidate_and_baselines_is_recorded(decide):
    found = accepted(decide(HONEST, tier=Tier.TIME, baselines=("eager",), repetitions=1, timing_s=0.2))
    assert found.peak_memory_bytes is not None
    assert found.peak_memory_bytes >= 2048 * 2000 * 4
    assert found.baseline_memory_bytes["eager"] >= 2048 * 2000 * 4


LARGE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(1 << 29)]

def get_init_inputs():
    return []
"""
LARGE_CODE = """
import torch
import triton
import triton.language as tl

@triton.jit
def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.where(x > 0, x, 0.0), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
        return y
"""


WEIGHTS = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1 << 14, 1 << 14))

    def forward(self, x):
        return x @ self.weight

def get_inputs():
    return [torch.randn(1, 1 << 14)]

def get_init_inputs():
    return []
"""
WEIGHTS_CODE = """
import torch
import triton
import triton.language as tl

@triton.jit
def product(x_ptr, w_ptr, y_ptr, K, N, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr):
    col = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    for first in range(0, K, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + k, mask=k < K, other=0.0)
        inside = (k < K)[:, None] & (col < N)[None, :]
        w = tl.load(w_ptr + k[:, None].to(tl.int64) * N + col[None, :], mask=inside, other=0.0)
        acc += x[:, None] * w
    tl.store(y_ptr + col, tl.sum(acc, axis=0), mask=col < N)

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(1 << 14, 1 << 14))

    def forward(self, x):
        K, N = self.weight.shape
        y = torch.empty((1, N), dtype=x.dtype, device=x.device)
        product[(triton.cdiv(N, 64),)](x, self.weight, y, K, N, BLOCK_K=64, BLOCK_N=64)
        return y
"""


@pytest.mark.parametrize(("source", "code"), [(LARGE, LARGE_CODE), (WEIGHTS, WEIGHTS_CODE)], ids=["inputs", "weights"])
def test_a_large_task_stays_within_what_is_reserved_for_it(processes, source, code):
    """Inputs and outputs of 2 GiB each, or weights of 1 GiB, from opening to timing."""
    gpu, before = processes.gpu(), gpu_memory_mib()
    if gpu is None or gpu.memory_bytes < 40 << 30:
        pytest.skip("needs 40 GiB")
    task = Task(id="large", source=source)
    reserved = gpu_bytes_of(footprint(task).to_json(), gpu.memory_bytes) >> 20
    most, done = [0], threading.Event()

    def watch():
        while not done.is_set():
            most[0] = max(most[0], gpu_memory_mib())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Judge(JudgeOptions(device="cuda", tier=Tier.TIME, timeout_s=120.0, repetitions=1)) as judge:
            accepted(judge.judge(task, code))
    finally:
        done.set()
        watcher.join()
    print(f"held {most[0] - before} of {reserved} MiB")
    assert most[0] - before <= reserved


# --- kernels that take the device with them ---------------------------------------------------------------


def test_an_endless_kernel_is_timed_out_and_the_next_candidate_is_judged(decide):
    assert decide(ENDLESS, timeout_s=12.0).outcome is Outcome.TIMED_OUT
    accepted(decide(HONEST))


def test_an_illegal_access_is_no_verdict_on_the_next_candidate(decide):
    found = decide(WILD)
    assert found.outcome in (Outcome.RUNTIME_ERROR, Outcome.CRASHED), f"{found.outcome}: {found.message}"
    accepted(decide(HONEST))


def gpu_memory_mib() -> int:
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        pytest.skip("nvidia-smi says nothing here")


def test_a_closed_judge_gives_its_gpu_memory_back():
    before = gpu_memory_mib()
    with Judge(JudgeOptions(device="cuda", timeout_s=TIMEOUT_S)) as judge:
        accepted(judge.judge(TASK, HONEST))
    deadline = time.monotonic() + 10
    while gpu_memory_mib() > before + 200 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert gpu_memory_mib() <= before + 200


def test_launchers_are_built_once_for_all_candidates() -> None:
    from triton.backends.nvidia import driver

    if not hasattr(driver, "make_launcher"):
        pytest.skip("this Triton has one launcher for all kernels")
    with Judge(JudgeOptions(device="cuda", timeout_s=TIMEOUT_S)) as judge:
        assert judge.judge(TASK, HONEST).outcome is Outcome.CORRECT
        folder = Path(judge.processes.triton_seed() or "")
        deadline = time.monotonic() + TIMEOUT_S
        while not list(folder.rglob("__triton_launcher*.so")) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert list(folder.rglob("__triton_launcher*.so"))
        assert judge.judge(TASK, HONEST).outcome is Outcome.CORRECT
    assert not folder.exists()
