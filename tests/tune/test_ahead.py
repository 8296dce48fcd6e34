"""Compiling ahead for a GPU that is not here: real compilers, a stand-in for the driver. Runs in a process of its own.

Triton decides at import whether kernels are interpreted, so these tests cannot run in the interpreter's process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.interp, pytest.mark.slow]

PRELUDE = """
import json, os, pathlib, sys, time, types
import torch
torch.set_num_threads(1)
from triton.runtime import driver
from autotriton.tune import kernels, subject
from autotriton.tune.ahead import Ahead
from autotriton.tune.compiling import Pool, target_of

def binaries():
    return sorted(str(path) for path in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin"))

def pretend():
    target = target_of("9.0")
    known = {"get_current_target": lambda: target, "get_current_device": lambda: 0, "get_current_stream": lambda _: 0}
    driver.set_active(types.SimpleNamespace(**known))

module = subject.load(sys.argv[1])
ahead = Ahead(module, "9.0", 2)
pretend()
"""
FILE = """
import os
import torch
import triton
import triton.language as tl

TILES = {"scale": {"BLOCK": 128, "num_warps": 4}}

@triton.jit
def double(x):
    return x * 2

@triton.jit
def scale_kernel(x_ptr, F: tl.constexpr, DTYPE: tl.constexpr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, F(tl.load(x_ptr + at, mask=at < n)).to(DTYPE), mask=at < n)

@triton.jit
def dot_kernel(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at[:, None] * BLOCK + at[None, :])
    tl.store(x_ptr + at[:, None] * BLOCK + at[None, :], tl.dot(x, x, out_dtype=tl.float16))

def scale(x):
    tiles = TILES["scale"]
    scale_kernel[(triton.cdiv(x.numel(), tiles["BLOCK"]),)](x, double, tl.float32, x.numel(), **tiles)

def dot(x):
    dot_kernel[(1,)](x, BLOCK=x.shape[0])
"""


def run(script: str, folder, code: str = FILE):
    path = folder / "candidate.py"
    path.write_text(code)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "TRITON_INTERPRET": "0"}
    text = PRELUDE + textwrap.dedent(script) + "\nahead.close()\n"
    command = [sys.executable, "-c", text, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_settings_are_compiled_side_by_side_and_the_measuring_process_finds_the_binaries(tmp_path):
    found = run(
        """
        x = torch.ones(1000)
        for number, block in enumerate((128, 256, 1000, 512)):
            module.TILES["scale"] = {"BLOCK": block, "num_warps": 4}
            ahead.collect(lambda: module.scale(x), ("scale", number))
        launched = x.tolist() != [1.0] * 1000
        ahead.wait(60)
        sorted_ = ahead.sort("scale", range(4), 200_000)
        before = binaries()
        with kernels._diverted(lambda kernel: None):  # compiles, or finds compiled
            module.scale(x)
        same = before == binaries()
        print(json.dumps([launched, sorted_.usable, sorted_.refused, sorted_.unfinished, same, len(before)]))
        """,
        tmp_path,
    )
    launched, usable, refused, unfinished, same, count = found
    assert not launched
    assert usable == [0, 1, 3]
    assert list(refused) == ["2"]
    assert "power of 2" in refused["2"]
    assert unfinished == []
    assert same
    assert count == 3


def test_too_much_shared_memory_is_known_before_anything_runs(tmp_path):
    found = run(
        """
        for number, size in enumerate((16, 64)):
            x = torch.ones(size, size, dtype=torch.float16)
            ahead.collect(lambda: module.dot(x), ("dot", number))
        ahead.wait(60)
        sorted_ = ahead.sort("dot", range(2), 4 << 10)
        print(json.dumps([sorted_.usable, sorted_.refused]))
        """,
        tmp_path,
    )
    assert found[0] == [0]
    assert "of shared memory, the GPU has 4 KB" in found[1]["1"]


def test_what_is_not_compiled_in_time_is_left_out_but_for_the_files_own_setting(tmp_path):
    found = run(
        """
        x = torch.ones(1000)
        for number, block in enumerate((128, 256)):
            module.TILES["scale"] = {"BLOCK": block, "num_warps": 4}
            ahead.collect(lambda: module.scale(x), ("scale", number))
        ahead.wait(0.0)
        sorted_ = ahead.sort("scale", range(2), 200_000)
        print(json.dumps([sorted_.usable, sorted_.unfinished]))
        """,
        tmp_path,
    )
    assert found == [[0], [1]]


def test_where_the_files_own_setting_does_not_compile_here_the_compilers_are_not_believed(tmp_path):
    found = run(
        """
        x = torch.ones(1000)
        for number, block in enumerate((1000, 3000, 256)):
            module.TILES["scale"] = {"BLOCK": block, "num_warps": 4}
            ahead.collect(lambda: module.scale(x), ("scale", number))
        ahead.wait(60)
        print(json.dumps(ahead.sort("scale", range(3), 200_000).usable))
        """,
        tmp_path,
    )
    assert found == [0, 1, 2]


def test_a_compiler_that_dies_or_hangs_costs_its_own_kernel(tmp_path):
    found = run(
        """
        from autotriton.tune import compiling
        from autotriton.tune.kernels import Job

        def misbehave(job, functions, target):
            if job.key[1] == "dies":
                os._exit(9)
            if job.key[1] == "hangs":
                time.sleep(60)
            return compiling.Compiled(shared_bytes=7)

        compiling._compile = misbehave
        pool = Pool({}, "9.0", 2, timeout_s=1.0)
        started = time.monotonic()
        for kind in ("dies", "hangs", "works", "works too"):
            pool.submit(Job(("f", kind), {}, {}, {}, {}))
        unpicklable = pool.submit(Job(("f", "lambda"), {}, {"x": lambda: 0}, {}, {}))
        pool.wait(time.monotonic() + 20)
        took = time.monotonic() - started
        answers = {key[1]: [one.error, one.shared_bytes] for key, one in pool.done.items()}
        pool.close()
        print(json.dumps([answers, unpicklable, took]))
        """,
        tmp_path,
    )
    answers, unpicklable, took = found
    assert answers["dies"][0] == "the compiler crashed (exit status 9)"
    assert answers["hangs"][0] == "took too long to compile"
    assert answers["works"] == answers["works too"] == [None, 7]
    assert unpicklable is False
    assert took < 10


def test_a_file_that_tunes_itself_is_not_compiled_ahead(tmp_path):
    code = FILE.replace(
        "@triton.jit\ndef dot_kernel",
        '@triton.autotune([triton.Config({"BLOCK": 16})], key=[])\n@triton.jit\ndef dot_kernel',
    )
    found = run('print(json.dumps([ahead._pool is None, ahead.sort("scale", [0, 1], 0).usable]))', tmp_path, code)
    assert found == [True, [0, 1]]
