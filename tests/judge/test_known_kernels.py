"""Kernels known from before: what may be kept, and that nothing else of a candidate runs when it is made."""

import pytest

from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.known_kernels import KnownKernels, excerpt
from autotriton.types import Kernel, Outcome, Target, Task, Tier

FILE = '''"""A file."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

SCALE = 2.0
LIMIT: tl.constexpr = tl.constexpr(3)
print("runs")


@triton.jit
def twice(x):
    return libdevice.tanh(x) * 2.0


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit(do_not_specialize=["n"])
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):
    """Doubles."""
    # a comment
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, twice(tl.load(x_ptr + at, mask=at < n)) + LIMIT, mask=at < n)


def double(x):
    return x
'''
TARGETS = ("sm_90",)


def launch(**changes):
    known = {"kernel": "double_kernel", "signature": {"x_ptr": "*fp32"}, "constants": {"BLOCK": 64}, "attrs": {}}
    return known | {"num_warps": 4, "num_stages": None, "num_ctas": None, "options": {}} | changes


def key(code, *launches):
    found = excerpt(code, launches or (launch(),), TARGETS)
    return None if found is None else found.keys["double_kernel"]


def test_an_excerpt_holds_what_a_kernel_needs_and_nothing_else():
    text = excerpt(FILE, [launch()], TARGETS).text
    for needed in ("def twice", "def double_kernel", "libdevice", "LIMIT", "import triton.language as tl"):
        assert needed in text
    for other in ("SCALE", "print", "def double(", "autotune", "import torch", "Doubles"):
        assert other not in text
    compile(text, "excerpt", "exec")


def test_the_key_is_that_of_the_text_and_the_launch():
    assert key(FILE) == key(
        FILE.replace("# a comment", "# another").replace("Doubles.", "Twice.").replace("SCALE", "S")
    )
    for change in (("* 2.0", "* 3.0"), ("constexpr(3)", "constexpr(4)"), ("at < n)) + L", "at <= n)) + L")):
        assert key(FILE) != key(FILE.replace(*change))
    assert key(FILE) != key(FILE, launch(num_warps=8))
    assert key(FILE) != key(FILE, launch(constants={"BLOCK": 128}))
    assert key(FILE, launch(), launch(num_warps=8)) == key(FILE, launch(num_warps=8), launch())
    assert excerpt(FILE, [launch()], ("sm_80",)).keys["double_kernel"] != key(FILE)


@pytest.mark.parametrize(
    "change",
    [
        ("LIMIT: tl.constexpr = tl.constexpr(3)", "LIMIT = int('3')"),
        ("LIMIT: tl.constexpr = tl.constexpr(3)", "LIMIT = 3\nLIMIT = 4"),
        ("LIMIT: tl.constexpr = tl.constexpr(3)", "if True:\n    LIMIT = 3\nfor LIMIT in (3, 4):\n    pass"),
        ("LIMIT: tl.constexpr = tl.constexpr(3)", "LIMIT: print() = 3"),
        ("@triton.jit\ndef twice", "@print\n@triton.jit\ndef twice"),
        ("@triton.jit\ndef twice", "@triton.jit\n@print\ndef twice"),
        ("@triton.jit\ndef twice", "def twice"),
        ("@triton.jit\ndef twice(x)", "@triton.jit\ndef twice(x: print())"),
        ("@triton.jit\ndef twice(x)", "@triton.jit\ndef twice(x=print())"),
        ("@triton.jit\ndef twice(x)", "@triton.jit\ndef twice(*x)"),
        ("do_not_specialize=[", "repr=print, do_not_specialize=["),
        ("@triton.autotune(", "@libdevice.autotune("),
        ("from triton.language.extra import libdevice", "from torch import nn as libdevice"),
        ("from triton.language.extra import libdevice", "from triton.language.extra import *"),
        ("from triton.language.extra import libdevice", "from .triton import libdevice"),
        ("import triton\n", "import triton, os\n"),
        ("    return x\n", "    global LIMIT\n    LIMIT = 4\n"),
        ("    return libdevice", "    import os\n    return libdevice"),
        ("def double(x)", "class twice"),
        ("def double_kernel(", "def double_kernel_2("),
    ],
)
def test_what_does_not_stand_in_plain_sight_has_no_key(change):
    assert change[0] in FILE
    assert key(FILE.replace(*change, 1)) is None


def test_a_function_handed_over_as_a_constant_has_no_key():
    assert key(FILE, launch(constants={"f": {"jit": "twice"}})) is None


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"kernel": "double_kernel"},
        launch(kernel=["double_kernel"]),
        launch(kernel=None),
        launch(constants={"f": {1, 2}}),
    ],
)
def test_launches_that_are_none_cost_nobody_a_verdict(odd):
    assert excerpt(FILE, [odd], TARGETS) is None


def test_text_without_end_has_no_key():
    assert key(FILE.replace("* 2.0", "* 2.0" + " + 1.0" * 5000)) is None


def test_only_success_is_kept():
    known = KnownKernels()
    right = Target(arch="sm_90", registers=8, spills=0, shared_bytes=0, occupancy=1.0)
    for number, targets in enumerate([(), (Target(arch="sm_90", error="no"),), (Target(arch="sm_90"),), (right,)]):
        known.put(str(number), Kernel(name="k", launches=1, targets=targets))
    assert [known.get(str(number)) is not None for number in range(4)] == [False, False, False, True]


TASK = Task(
    id="double",
    source="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(100)]
def get_init_inputs():
    return []
""",
)
CODE = """
import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
        return out
"""


@pytest.mark.interp
def test_a_kernel_is_compiled_once_and_refused_every_time(monkeypatch):
    compiled = []
    ask = Judge._compiled

    def counted(self, code, launches):
        compiled.append(code)
        return ask(self, code, launches)

    monkeypatch.setattr(Judge, "_compiled", counted)
    # The interpreter runs a Python list comprehension; the compiler does not know it.
    wrong = CODE.replace("    tl.store", "    at = [at for _ in range(1)][0]\n    tl.store")
    options = JudgeOptions(tier=Tier.COMPILE, device="cpu", cases=2, late_calls_s=0.1, targets=TARGETS)
    with Judge(options) as judge:
        first, second = judge.judge(TASK, CODE), judge.judge(TASK, CODE.replace("class", "# otherwise\nclass"))
        assert len(compiled) == 1
        assert "ModelNew" not in compiled[0]
        assert first.accepted
        assert second.accepted
        assert first.kernels == second.kernels
        for _ in range(2):
            verdict = judge.judge(TASK, wrong)
            assert verdict.outcome is Outcome.COMPILE_ERROR
            assert "line 9" in verdict.message  # the candidate's own line, not the excerpt's
        assert len(compiled) == 5
