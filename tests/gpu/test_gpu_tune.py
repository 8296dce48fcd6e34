"""Tuning on a device: real times, real limits, kernels that take the CUDA context or the device with them.

The whole file is meant to take less than two minutes on an H200 with 16 cores.
"""

from __future__ import annotations

import time

import pytest

from autotriton import machine
from autotriton.judge import JudgeOptions, judge
from autotriton.tune import TileCache, supervise, tiles, tune
from autotriton.types import Candidate, Task

pytestmark = pytest.mark.gpu

TASK = Task(
    id="matmul",
    source="""
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.randn(2048, 2048).half(), torch.randn(2048, 2048).half()]

def get_init_inputs():
    return []
""",
)
CODE = '''"""c = a @ b"""
import torch
import triton
import triton.language as tl

TILES = {"matmul": {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "TRICK": "none", "num_warps": 1, "num_stages": 1}}


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, flag_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TRICK: tl.constexpr,
):
    if TRICK == "spin":
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
    if TRICK == "stray":
        a_ptr += tl.full((), 1 << 42, tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        keep_a = (rows < m)[:, None] & (inner < k)[None, :]
        keep_b = (inner < k)[:, None] & (columns < n)[None, :]
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=keep_a, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=keep_b, other=0.0)
        total = tl.dot(a, b, total)
    keep = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=keep)


def matmul(a, b):
    tiles = TILES["matmul"]
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    flag = torch.zeros(1, dtype=torch.int32, device=a.device)
    grid = (triton.cdiv(m, tiles["BLOCK_M"]), triton.cdiv(n, tiles["BLOCK_N"]))
    matmul_kernel[grid](a, b, c, flag, m, n, k, **tiles)
    return c


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return matmul(a, b)
'''


def setting(m: int, n: int, k: int, warps: int, stages: int, trick: str = "none") -> dict[str, int | str | bool]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "TRICK": trick, "num_warps": warps, "num_stages": stages}


OWN = setting(16, 16, 16, 1, 1)
GOOD = (setting(128, 128, 64, 8, 3), setting(64, 64, 32, 4, 3), setting(128, 256, 64, 8, 3), setting(32, 32, 32, 2, 2))


@pytest.fixture(autouse=True)
def _needs_gpu():
    if machine.describe().gpu is None:
        pytest.skip("no CUDA device")


@pytest.fixture
def workers(monkeypatch):
    started = []
    original = supervise.Session

    def session(*args):
        started.append(args[0])
        return original(*args)

    monkeypatch.setattr(supervise, "Session", session)
    return started


def tuned(cache: TileCache, *choices: dict[str, int | str | bool], **more) -> tuple[Candidate, list[str]]:
    said: list[str] = []
    given = Candidate(task_id="matmul", code=CODE, choices={"matmul": (OWN, *choices)})
    return tune(TASK, given, budget_s=40.0, cache=cache, progress=said.append, **more), said


def test_a_poor_setting_is_replaced_by_a_good_one_and_the_judge_accepts_it(tmp_path, workers):
    cache = TileCache(tmp_path)
    found, said = tuned(cache, *GOOD)
    chosen = tiles.read(found.code)["matmul"]
    assert chosen in GOOD[:3], said
    assert f"# measured on {machine.describe().gpu}, triton {machine.describe().triton}" in found.code
    # The summary says "matmul: OWN -> BEST ms": tiles of 16 x 16 on one warp are several times slower.
    own, best = said[-1].split(" ms;")[0].removeprefix("matmul: ").split(" -> ")
    assert float(own) > 3 * float(best)
    verdict = judge(TASK, found.code, JudgeOptions(device="cuda"))
    assert verdict.accepted, verdict.message
    started = time.monotonic()
    assert tuned(cache, *GOOD)[0] == found
    assert len(workers) == 1
    assert time.monotonic() - started < 1


def test_kernels_are_compiled_ahead_and_what_does_not_fit_is_never_run(tmp_path):
    found, said = tuned(TileCache(tmp_path), setting(128, 256, 256, 8, 5), GOOD[0])
    assert tiles.read(found.code)["matmul"] == GOOD[0]
    (refused,) = (line for line in said if "is left out" in line)
    assert "of shared memory, the GPU has" in refused


def test_a_setting_that_loses_the_context_costs_itself_only(tmp_path, workers):
    found, said = tuned(TileCache(tmp_path), setting(64, 64, 32, 4, 3, "stray"), GOOD[0])
    assert tiles.read(found.code)["matmul"] == GOOD[0], said
    assert len(workers) == 2
    assert any("stray" in line and "is left out" in line for line in said)


def test_an_endless_kernel_is_ended(tmp_path, workers):
    found, said = tuned(TileCache(tmp_path), setting(64, 64, 32, 4, 3, "spin"), GOOD[0], stall_s=5.0)
    assert tiles.read(found.code)["matmul"] == GOOD[0], said
    assert len(workers) == 2
