"""Real kernels compiled for all four architectures, in one child process as the judge does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from autotriton.errors import UsageError
from autotriton.judge.targets import TARGETS, first_error, parse_targets, unmeasured
from autotriton.types import Kernel, Target

CANDIDATE = """\
import functools

import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(3.0)
PLAIN = 2.0


@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n) + SCALE, mask=o < n)


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + tl.program_id(0) * n + o, mask=o < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y_ptr + tl.program_id(0) * n + o, e / tl.sum(e, axis=0), mask=o < n)


@triton.jit
def tile(pid, M, BM: tl.constexpr):
    return (pid * BM + tl.arange(0, BM)) % M


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tile(tl.program_id(0), M, BM)
    rn = tile(tl.program_id(1), N, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :])
        b = tl.load(b_ptr + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


@triton.autotune(configs=[triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + o, tl.load(x_ptr + o) * 2)
    else:
        tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n) * 2, mask=o < n)


class Holder:
    @triton.jit
    def in_class(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def factory():
    @triton.jit
    def in_closure(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 2.0)

    def launch(x):
        in_closure[(1,)](x, BLOCK=16)

    return launch


launch_closure = factory()


@triton.jit
def square(x):
    return x * x


@triton.jit
def apply(x_ptr, bias_ptr, pair, FN: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = FN(tl.load(x_ptr + o).to(DTYPE)) * pair[0]
    if bias_ptr is not None:
        v += tl.load(bias_ptr + o)
    tl.store(x_ptr + o, v)


@triton.jit
def described(desc, y_ptr, B: tl.constexpr):
    v = desc.load([0, 0])
    o = tl.arange(0, B)
    tl.store(y_ptr + o[:, None] * B + o[None, :], v)


@triton.jit
def calls_torch(x_ptr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x_ptr + o, torch.exp(tl.load(x_ptr + o)))  # torch in a kernel


@triton.jit
def bad_range(x_ptr, n):
    o = tl.arange(0, n)  # n is not a constant
    tl.store(x_ptr + o, 0.0)


@triton.jit
def bad_types(x_ptr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x_ptr + o, tl.load(x_ptr + o) & 1)  # and on floats


@triton.jit
def bad_helper(x):
    y = x + 1
    return tl.dot(y, y)  # one dimension


@triton.jit
def uses_bad_helper(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, bad_helper(tl.arange(0, BLOCK)))


@triton.jit
def reads_global(x_ptr):
    tl.store(x_ptr, PLAIN)  # not a constexpr


@triton.jit
def bad_assembly(x_ptr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + o)
    tl.store(x_ptr + o, tl.inline_asm_elementwise("garbage $0, $1;", "=r,r", [v], tl.float32, is_pure=True, pack=1))


@triton.constexpr_function
def leave():
    raise SystemExit(3)


@triton.jit
def kills_the_compiler(x_ptr):
    leave()
    tl.store(x_ptr, 1.0)


@triton.constexpr_function
def spin():
    while True:
        pass


@triton.jit
def hangs_the_compiler(x_ptr):
    spin()
    tl.store(x_ptr, 1.0)
"""

CHILD = """\
import importlib.util, json, sys
from autotriton.judge.targets import compile_launches
path, batches = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("candidate", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
answers = [compile_launches(module, launches, targets, **options) for launches, targets, options in batches]
text = json.dumps([[kernel.model_dump(mode="json") for kernel in kernels] for kernels in answers])
open(sys.argv[1], "w").write(text)
"""


def launches() -> dict[str, dict[str, Any]]:
    """One launch of each kernel of CANDIDATE, as an interpreter run would have seen it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    from autotriton.judge.launches import describe

    def launch(name: str, args: dict[str, object], constants: dict[str, object], **options: object) -> dict[str, Any]:
        return describe(name, [*args, *constants], list(constants), {**args, **constants}, options)

    x, h = torch.zeros(4096), torch.zeros(4096, dtype=torch.bfloat16)
    io: dict[str, object] = {"x_ptr": x, "y_ptr": x, "n": 1000}
    square: dict[str, object] = {"a_ptr": x, "b_ptr": x, "c_ptr": x, "M": 64, "N": 64, "K": 64}
    block: dict[str, object] = {"BLOCK": 64}
    tiles: dict[str, object] = {"BM": 64, "BN": 64, "BK": 32}
    applied: dict[str, object] = {"x_ptr": x, "bias_ptr": None, "pair": (2.0, 1)}
    seen = [
        launch("add", io, {"BLOCK": 1024}, num_warps=4),
        launch("softmax", {"x_ptr": h, "y_ptr": h, "n": 1024}, {"BLOCK": 1024}),
        launch("matmul", square, tiles, num_warps=4, num_stages=2),
        launch("tuned", {**io, "n": 1024}, {"BLOCK": 256, "EVEN": True}, num_warps=2, num_stages=3, num_ctas=1),
        launch("in_class", {"x_ptr": x}, block),
        launch("in_closure", {"x_ptr": x}, block),
        launch("apply", applied, {"FN": _named_square(), "DTYPE": tl.float16, **block}),
        launch("described", {"desc": TensorDescriptor.from_tensor(x.view(64, 64), [32, 32]), "y_ptr": x}, {"B": 32}),
        launch("calls_torch", {"x_ptr": x}, block),
        launch("bad_range", {"x_ptr": x, "n": 64}, {}),
        launch("bad_types", {"x_ptr": x}, block),
        launch("uses_bad_helper", {"x_ptr": x}, block),
        launch("reads_global", {"x_ptr": x}, {}),
        launch("bad_assembly", {"x_ptr": x}, block),
        launch("kills_the_compiler", {"x_ptr": x}, {}),
        launch("hangs_the_compiler", {"x_ptr": x}, {}),
        launch("not_there", {"x_ptr": x}, block),
    ]
    halves: dict[str, object] = {**square, "a_ptr": h, "b_ptr": h}
    return {one["kernel"]: one for one in seen} | {
        "add of another type": launch("add", {**io, "x_ptr": h}, {"BLOCK": 4096}, num_warps=1),
        "option nobody knows": launch("add", io, {"BLOCK": 1024}, num_wraps=4),
        "too many threads": launch("add", io, {"BLOCK": 4096}, num_warps=32),
        "too few registers": launch("softmax", io, {"BLOCK": 8192}, num_warps=4, maxnreg=32),
        "200 KB of shared memory": launch("matmul", halves, {"BM": 64, "BN": 64, "BK": 64}, num_stages=14),
        "90 KB of shared memory": launch("matmul", halves, {"BM": 64, "BN": 64, "BK": 128}, num_stages=4),
        "constant that does not travel": launch("add", io, {"BLOCK": object()}),
    }


def _named_square() -> object:
    import triton

    @triton.jit
    def square(x):  # stands for the candidate's function of that name
        return x * x

    return square


ALL = list(TARGETS)
BATCHES: dict[str, tuple[list[str], list[str], dict[str, Any]]] = {
    "honest": (["add", "softmax", "matmul", "tuned", "in_class", "in_closure", "apply", "described"], ALL, {}),
    "refused": (["calls_torch", "bad_range", "bad_types", "uses_bad_helper", "reads_global"], ALL, {}),
    "out of reach": (["not_there"], ALL, {}),
    "bad assembly": (["bad_assembly"], ALL, {}),
    "crash": (["kills_the_compiler", "add"], ["sm_80"], {}),
    "hang": (["hangs_the_compiler"], ["sm_80"], {"timeout_s": 1.0}),
    "two types": (["add", "add", "add of another type"], ["sm_80"], {}),
    "nobody's option": (["option nobody knows"], ["sm_90"], {}),
    "threads": (["too many threads"], ["sm_80", "gfx942"], {}),
    "registers": (["too few registers"], ["sm_80", "gfx942"], {}),
    "shared memory": (["200 KB of shared memory"], ["sm_80"], {}),
    "shared memory, amd": (["90 KB of shared memory"], ["gfx942"], {}),
    "constant": (["constant that does not travel"], ["sm_80"], {}),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Kernel]]:
    """Every batch, from one child: without TRITON_INTERPRET, with a cache of its own, and no GPU to be seen."""
    folder = tmp_path_factory.mktemp("targets")
    source, answer = folder / "candidate.py", folder / "answer.json"
    source.write_text(CANDIDATE)
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    known = launches()
    work = [([known[name] for name in names], targets, options) for names, targets, options in BATCHES.values()]
    command = [sys.executable, "-c", CHILD, str(answer)]
    subprocess.run(command, input=json.dumps([str(source), work]), text=True, env=env, check=True, timeout=240)
    answers = [[Kernel.model_validate(kernel) for kernel in kernels] for kernels in json.loads(answer.read_text())]
    assert (folder / "cache").is_dir()
    return dict(zip(BATCHES, answers, strict=True))


def named(kernels: list[Kernel], name: str) -> Kernel:
    return next(kernel for kernel in kernels if kernel.name == name)


def test_parse_targets_drops_repetitions_and_keeps_the_order() -> None:
    assert parse_targets(["sm_90", "sm_80", "sm_90"]) == ("sm_90", "sm_80")


def test_unknown_target_is_a_usage_error_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"sm_75.*sm_80, sm_90, sm_100, gfx942"):
        parse_targets(["sm_75"])


def test_first_error_names_kernel_and_target() -> None:
    good, bad = Target(arch="sm_80", registers=32), Target(arch="sm_90", error="no")
    assert first_error([Kernel(name="a", targets=(good,))]) is None
    message = first_error([Kernel(name="a", targets=(good,)), Kernel(name="b", targets=(good, bad))])
    assert message == "b does not compile for sm_90: no"


def test_unmeasured_kernels_and_targets_are_named() -> None:
    kernels = [Kernel(name="a"), Kernel(name="b", targets=(Target(arch="sm_80"), Target(arch="sm_90", error="no")))]
    assert unmeasured(kernels) == ("a was not cross-compiled", "b was not measured for sm_80")


@pytest.mark.interp
@pytest.mark.parametrize("name", BATCHES["honest"][0])
def test_honest_kernel_compiles_for_every_target(compiled: dict[str, list[Kernel]], name: str) -> None:
    kernel = named(compiled["honest"], name)
    assert kernel.launches == 1
    assert [target.arch for target in kernel.targets] == ALL
    for target in kernel.targets:
        assert target.error is None
        assert 0 < (target.registers or 0) <= 512
        assert target.spills is not None
        assert target.shared_bytes is not None
        assert 0.0 < (target.occupancy or 0.0) <= 1.0


@pytest.mark.interp
def test_honest_kernels_leave_no_error_and_no_note(compiled: dict[str, list[Kernel]]) -> None:
    assert first_error(compiled["honest"]) is None
    assert unmeasured(compiled["honest"]) == ()


@pytest.mark.interp
def test_matmul_uses_shared_memory_and_many_registers(compiled: dict[str, list[Kernel]]) -> None:
    for target in named(compiled["honest"], "matmul").targets:
        assert (target.shared_bytes or 0) >= 8 * 1024
        assert (target.registers or 0) > 64
        assert (target.occupancy or 1.0) <= 0.5


@pytest.mark.interp
@pytest.mark.parametrize(
    ("name", "kind", "marker", "message"),
    [
        ("calls_torch", "RuntimeError", "# torch in a kernel", "exp"),
        ("bad_range", "ValueError", "# n is not a constant", "constexpr"),
        ("bad_types", "IncompatibleTypeErrorImpl", "# and on floats", "float32"),
        ("uses_bad_helper", "AssertionError", "# one dimension", ""),
        ("reads_global", "NameError", "# not a constexpr", "PLAIN"),
    ],
)
def test_error_has_type_line_source_and_message(
    compiled: dict[str, list[Kernel]], name: str, kind: str, marker: str, message: str
) -> None:
    lines = CANDIDATE.splitlines()
    number = next(i for i, text in enumerate(lines, 1) if text.endswith(marker))
    for target in named(compiled["refused"], name).targets:
        where, _, what = (target.error or "").partition("`): ")
        assert where == f"{kind} at line {number} (`{lines[number - 1].strip()}"
        assert message in what
        assert "\n" not in what
        assert target.registers is None


@pytest.mark.interp
def test_what_the_assembler_refuses_has_its_reason(compiled: dict[str, list[Kernel]]) -> None:
    errors = {target.arch: target.error or "" for target in compiled["bad assembly"][0].targets}
    assert errors["sm_80"].startswith("PTXASError at line ")
    assert "(`def bad_assembly(x_ptr, BLOCK: tl.constexpr):`)" in errors["sm_80"]
    assert "garbage" in errors["sm_80"]
    assert "invalid instruction" in errors["gfx942"]


@pytest.mark.interp
def test_crash_of_the_compiler_is_an_error_of_that_kernel_alone(compiled: dict[str, list[Kernel]]) -> None:
    crashed, intact = compiled["crash"]
    assert "crashed (exit status 3)" in (crashed.targets[0].error or "")
    assert intact.targets[0].registers is not None


@pytest.mark.interp
def test_compilation_past_its_deadline_is_unmeasured(compiled: dict[str, list[Kernel]]) -> None:
    assert compiled["hang"][0].targets == (Target(arch="sm_80"),)
    assert unmeasured(compiled["hang"]) == ("hangs_the_compiler was not measured for sm_80",)


@pytest.mark.interp
def test_kernel_out_of_reach_is_unmeasured_and_not_an_error(compiled: dict[str, list[Kernel]]) -> None:
    assert compiled["out of reach"] == [Kernel(name="not_there", launches=1)]


@pytest.mark.interp
def test_constant_that_does_not_travel_is_unmeasured_and_not_an_error(compiled: dict[str, list[Kernel]]) -> None:
    assert compiled["constant"][0].targets == (Target(arch="sm_80"),)


@pytest.mark.interp
def test_kernel_launched_in_two_ways_shows_the_lower_occupancy(compiled: dict[str, list[Kernel]]) -> None:
    (kernel,) = compiled["two types"]
    (target,) = kernel.targets
    alone = named(compiled["honest"], "add").targets[0]
    assert kernel.launches == 3
    assert (target.occupancy or 1.0) < (alone.occupancy or 0.0)


@pytest.mark.interp
def test_option_the_launcher_would_refuse_is_an_error(compiled: dict[str, list[Kernel]]) -> None:
    assert "num_wraps was specified but unrecognised" in (compiled["nobody's option"][0].targets[0].error or "")


@pytest.mark.interp
def test_block_of_2048_threads_is_an_error_where_warps_are_64_wide(compiled: dict[str, list[Kernel]]) -> None:
    nvidia, amd = compiled["threads"][0].targets
    assert nvidia.error is None
    assert amd.error == "needs 2048 threads per block, gfx942 has 1024"


@pytest.mark.interp
def test_register_limit_shows_as_spills_and_only_nvidia_knows_it(compiled: dict[str, list[Kernel]]) -> None:
    nvidia, amd = compiled["registers"][0].targets
    assert (nvidia.registers or 0) <= 32
    assert (nvidia.spills or 0) > 0
    assert "maxnreg" in (amd.error or "")


@pytest.mark.interp
def test_too_much_shared_memory_says_how_much_there_is(compiled: dict[str, list[Kernel]]) -> None:
    for batch, limit in (("shared memory", "sm_80 has 163 KB"), ("shared memory, amd", "gfx942 has 64 KB")):
        (target,) = compiled[batch][0].targets
        assert (target.error or "").endswith(f"KB of shared memory, {limit} per block")
        assert target.occupancy == 0.0
    assert (first_error(compiled["shared memory"]) or "").startswith("matmul does not compile for sm_80: needs ")
