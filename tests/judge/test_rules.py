"""Honest programs stay green, unreadable ones get one finding, kernels must be reachable."""
# ruff: noqa: E501

import pytest

from autotriton.judge.rules import has_code, scan
from autotriton.types import Finding, Policy, Severity

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
"""
KERNEL = """
@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + off, tl.load(x_ptr + off, mask=off < n), mask=off < n)


def triton_copy(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(x)
"""


def errors(code: str, policy: Policy = Policy.STRICT, entry: str = "ModelNew") -> list[Finding]:
    return [finding for finding in scan(code, policy, entry) if finding.severity is Severity.ERROR]


def in_file(snippet: str) -> str:
    return HEAD + KERNEL + snippet + MODEL


def in_forward(body: str, setup: str = "pass") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    start = "".join(f"        {line}\n" for line in setup.splitlines())
    return (
        f"{HEAD}{KERNEL}\nclass ModelNew(nn.Module):\n    def __init__(self, n=4):\n        super().__init__()\n{start}\n"
        f"    def forward(self, x):\n{lines}        return triton_copy(x)\n"
    )


HONEST_TOP_LEVEL = {
    "alias of a module": "FF = torch.nn.functional\ny = FF.relu",
    "optional libdevice": "try:\n    from triton.language.extra import libdevice\nexcept ImportError:\n    libdevice = None\n"
    "HAS = libdevice is not None\n",
    "libdevice through tl": "libdevice = tl.extra.cuda.libdevice if hasattr(tl, 'extra') else tl.math\n",
    "dataclass config": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    block: int = 64\n"
    "    warps: int = 4\nC = Config()\nB = C.block\n",
    "lru_cache": "import functools\n@functools.lru_cache(maxsize=None)\ndef sms(device):\n"
    "    return torch.cuda.get_device_properties(device).multi_processor_count\n",
    "wraps next to def": "from functools import wraps\ndef outer(f):\n    @wraps(f)\n    def inner(*a):\n"
    "        return f(*a)\n    return inner\n",
    "triton driver properties": "def sms():\n    d = triton.runtime.driver.active.get_current_device()\n"
    "    return triton.runtime.driver.active.utils.get_device_properties(d)['multiprocessor_count']\n"
    "DEVICE = triton.runtime.driver.active.get_active_torch_device()\n"
    "def is_cuda():\n    return triton.runtime.driver.active.get_current_target().backend == 'cuda'\n",
    "driver imported": "from triton.runtime import driver\n\ndef dev():\n    return driver.active.get_current_device()\n",
    "allocator for TMA": "from typing import Optional\ndef alloc(size: int, align: int, stream: Optional[int]):\n"
    "    return torch.empty(size, device='cuda', dtype=torch.int8)\ntriton.set_allocator(alloc)\n",
    "tensor descriptor": "from triton.tools.tensor_descriptor import TensorDescriptor\ndef d(x):\n"
    "    return TensorDescriptor(x, x.shape, x.stride(), [64, 64])\n",
    "autotune with hooks": "def zero(nargs):\n    nargs['y_ptr'].zero_()\n\n"
    "@triton.autotune(configs=[triton.Config({'B': 32}, num_warps=4, pre_hook=zero)], key=['n'], reset_to_zero=['y_ptr'],\n"
    "                 restore_value=['x_ptr'])\n"
    "@triton.heuristics({'EVEN': lambda args: args['n'] % 32 == 0})\n@triton.jit\n"
    "def k2(x_ptr, y_ptr, n, EVEN: tl.constexpr, B: tl.constexpr):\n    pass\n",
    "configs built by a function": "def configs():\n"
    "    return [triton.Config({'B': b}, num_stages=s) for b in (32, 64) for s in (2, 3)]\nALL: list[triton.Config] = configs()\n",
    "descriptor load in a kernel": "@triton.jit\ndef k3(x_ptr, n, B: tl.constexpr):\n"
    "    desc = tl.make_tensor_descriptor(x_ptr, [n], [1], [B])\n    v = desc.load([0])\n    desc.store([0], v)\n",
    "autograd function": "class Fn(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, eps):\n"
    "        ctx.save_for_backward(x)\n        ctx.eps = eps\n        ctx._shape = x.shape\n        return triton_copy(x)\n"
    "    @staticmethod\n    def backward(ctx, gy):\n        (x,) = ctx.saved_tensors\n        raise NotImplementedError\n",
    "custom_fwd": "from torch.cuda.amp import custom_bwd, custom_fwd\nclass Fn(torch.autograd.Function):\n"
    "    @staticmethod\n    @custom_fwd\n    def forward(ctx, x):\n        return x\n",
    "pasted reference and inputs": "class Model(nn.Module):\n    def __init__(self):\n        super(Model, self).__init__()\n"
    "        self.conv = nn.Conv2d(3, 8, 3)\n    def forward(self, x):\n        return torch.relu(self.conv(x))\n"
    "def get_inputs():\n    return [torch.randn(2, 3, 8, 8)]\ndef get_init_inputs():\n    return []\n",
    "type hints": "from typing import Optional, Tuple, List, Union\nPair = Tuple[torch.Tensor, torch.Tensor]\n"
    "def f(x: torch.Tensor, w: Optional[torch.Tensor] = None, *, n: int | None = None) -> Union[torch.Tensor, List[int]]:\n"
    "    y: torch.Tensor = x\n    return y\n",
    "main block": "if __name__ == '__main__':\n    torch.manual_seed(0)\n    import argparse\n"
    "    ms = triton.testing.do_bench(lambda: triton_copy(torch.randn(4)))\n    print(ms)\n",
    "environment read": "import os\nDEBUG = os.environ.get('DEBUG', '0') == '1'\nX = os.environ['HOME']\nY = 'A' in os.environ\n"
    "Z = os.getenv('B')\n",
    "versions": "import sys\nfrom packaging import version\nNEW = version.parse(triton.__version__) >= version.Version('3.0')\n"
    "PY = sys.version_info >= (3, 10)\nT = torch.__version__\n",
    "numpy scalars": "import numpy as np\nN = int(np.prod([2, 3]))\nD = np.float32\n",
    "reduce with operator": "import functools, operator\nN = functools.reduce(operator.mul, [2, 3], 1)\n",
    "enum and namedtuple": "import enum\nfrom collections import namedtuple\nfrom typing import NamedTuple\n"
    "class Mode(enum.Enum):\n    A = 1\nP = namedtuple('P', 'a b')\np = P(1, 2)._replace(a=3)\nclass Q(NamedTuple):\n    a: int\n",
    "global counter": "_calls = 0\ndef count():\n    global _calls\n    _calls += 1\n",
    "function attribute": "def helper():\n    helper.cache = 1\n    helper._n = 2\n    return helper._n\n",
    "regex": "import re\nP = re.compile('a+')\n",
    "coding cookie utf-8 far down": "# -*- coding: latin-1 -*-\n",
    "star of math": "from math import *\n",
    "future annotations in docstring position": "x = 'text about eval and exec and __import__'\n",
    "context manager": "import contextlib\n@contextlib.contextmanager\ndef ctxm():\n    yield\n",
    "own exception": "class BadShape(ValueError):\n    pass\n",
    "registry": "OPS = {}\nOPS['copy'] = triton_copy\n",
    "inline asm": "@triton.jit\ndef k4(x):\n    return tl.inline_asm_elementwise('mov', '=r,r', [x], tl.int32, True, 1)\n",
}
HONEST_FORWARD = {
    "device context": "with torch.cuda.device(x.device):\n    x = x + 0",
    "no grad": "with torch.no_grad():\n    x = x.contiguous()",
    "private state": "if self._cache is None:\n    self._cache = x.shape",
    "shapes named F": "B, F = x.shape\ny = F * 2\nz = (B, F)",
    "asserts and types": "assert isinstance(x, torch.Tensor) and x.is_cuda\nassert x.dtype in (torch.float32, torch.float16)",
    "type in message": "if type(x) is not torch.Tensor:\n    raise TypeError(f'got {type(x)} {type(x).__name__}')",
    "class name": "name = self.__class__.__name__",
    "finfo": "low = torch.finfo(x.dtype).min\np = x.data_ptr()\ns = x.stride(0)",
    "weight data": "w = self.lin.weight.data\nb = self.lin.bias.detach()",
    "grid lambda": "grid = lambda META: (triton.cdiv(x.numel(), META['BLOCK']),)\ncopy_kernel[grid](x, x, 4, BLOCK=4)",
    "getattr with default": "n = getattr(self, 'n', 3)\nd = getattr(torch, 'float8_e4m3fn', None)",
    "getattr of numbered layer": "l = getattr(self, f'layer{3}')",
    "parameter called input": "input = x\ninput = input.contiguous()",
    "best config": "print(copy_kernel.best_config)",
    "format": "s = '{} {:.2f}'.format(1, 2.0)",
    "in place ops": "x = x.clone()\nx[0] = 1\nx += 1\ndel x\nx = self.lin.weight",
    "seed and stream as own words": "self.seed = 3\nt = self.seed\nself.stream_k = 2",
    "handler": "try:\n    y = triton_copy(x)\nexcept triton.runtime.errors.OutOfResources:\n    raise ValueError('no')",
    "requires grad": "for p in self.parameters():\n    p.requires_grad = False",
}
SETUP = """self._cache = None
self.lin = nn.Linear(n, n)
self.lin.weight = nn.Parameter(torch.empty(n, n))
self.lin.weight.data = torch.ones(n, n)
self.weight = nn.Parameter(torch.ones(n))
self.register_buffer("running", torch.zeros(n))
self.register_parameter("scale", None)
nn.init.kaiming_uniform_(self.weight, a=5)
self.lin.bias.data.zero_()
for i in range(3):
    setattr(self, f"layer{i}", nn.Linear(n, n))
self.act = nn.Sequential(nn.ReLU(), nn.Identity())
self.apply(self.init_one)"""


@pytest.mark.parametrize("snippet", HONEST_TOP_LEVEL.values(), ids=HONEST_TOP_LEVEL.keys())
def test_honest_module_level_code_is_green(snippet: str) -> None:
    assert errors(in_file(snippet)) == []


@pytest.mark.parametrize("body", HONEST_FORWARD.values(), ids=HONEST_FORWARD.keys())
@pytest.mark.parametrize("policy", Policy)
def test_honest_forward_is_green(body: str, policy: Policy) -> None:
    assert errors(in_forward(body, SETUP), policy) == []


@pytest.mark.parametrize(
    "kernel",
    [
        "@triton.jit\ndef k(x):\n    pass\n",
        "@triton.jit(do_not_specialize=['x'])\ndef k(x):\n    pass\n",
        "from triton import jit\n@jit\ndef k(x):\n    pass\n",
        "def raw(x):\n    pass\nk = triton.jit(raw)\n",
        "def raw(x):\n    pass\nk = triton.autotune(configs=[], key=[])(triton.jit(raw))\n",
        "@triton.autotune(configs=[triton.Config({})], key=['x'])\n@triton.jit\ndef k(x):\n    pass\n",
    ],
)
def test_every_spelling_of_jit_counts(kernel: str) -> None:
    assert errors(HEAD + kernel + "class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x)\n") == []


@pytest.mark.parametrize(
    "route",
    [
        "class Base(nn.Module):\n    def forward(self, x):\n        return triton_copy(x)\nclass ModelNew(Base):\n    pass\n",
        "OPS = {'a': triton_copy}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return OPS['a'](x)\n",
        "OPS = {}\ndef register(f):\n    OPS[f.__name__] = f\n    return f\n@register\ndef op(x):\n    return triton_copy(x)\n"
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return OPS['op'](x)\n",
        "class Inner(nn.Module):\n    def forward(self, x):\n        return triton_copy(x)\nModelNew = Inner\n",
        "def ModelNew(x):\n    return triton_copy(x)\n",
        "if True:\n    launch = triton_copy\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return launch(x)\n",
    ],
)
def test_kernel_is_reached_through_names(route: str) -> None:
    assert errors(HEAD + KERNEL + route) == []


def rules(code: str, policy: Policy = Policy.STRICT, entry: str = "ModelNew") -> list[str]:
    return [finding.rule for finding in errors(code, policy, entry)]


@pytest.mark.parametrize("made", ["parametrizations.weight_norm", "parametrizations.spectral_norm", "weight_norm"])
def test_layers_may_be_made_with_a_normed_weight(made: str) -> None:
    assert rules(in_forward("w = self.lin.weight", setup=f"self.lin = nn.utils.{made}(nn.Linear(4, 4))")) == []


@pytest.mark.parametrize("path", ["stateless", "rnn", "parametrize", "parametrizations.torch", "fusion", "prune"])
def test_nothing_else_is_reached_through_nn_utils(path: str) -> None:
    assert rules(in_forward(f"f = nn.utils.{path}")) != []


def test_unreachable_kernel_is_named() -> None:
    code = HEAD + KERNEL + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    assert rules(code) == ["no-reachable-kernel"]
    assert rules(code, Policy.MIXED) == ["no-reachable-kernel"]
    assert rules(code, Policy.PAPER) == []


def test_file_without_kernel_is_named() -> None:
    code = HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
    assert rules(code) == ["no-kernel"] == rules(code, Policy.PAPER)


def test_missing_entry_says_what_was_looked_for() -> None:
    found = errors(in_file(""), entry="Fast")
    assert [f.rule for f in found] == ["no-entry"]
    assert "Fast" in found[0].message


def test_operator_namespace_is_open_only_outside_strict() -> None:
    code = in_forward("x = torch.ops.aten._softmax.default(x, 1, False)")
    assert rules(code) != []
    assert rules(code, Policy.MIXED) == []
    assert rules(in_forward("torch.ops.load_library('x')"), Policy.MIXED) == ["escape"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = (", 1),
        ("a = 1\nb = \x00", 2),
        ("def f():\n  x = 1\n y = 2\n", 3),
        ("# coding: utf-7\nx = 1\n", 1),
        ("\n# vim: set fileencoding=latin-1 :\n", 2),
        ("x = " + "(" * 5000 + ")" * 5000, None),
        ("x = " + "-" * 100_000 + "1", None),
        ("x = '" + "a" * 1_000_001 + "'", None),
        ("x = '\ud800'", None),
        ("x = " + "a." * 20_000 + "b", None),
        ("x = 1\n" * 120_000, None),
    ],
)
def test_unreadable_text_is_one_syntax_finding(code: str, line: int | None) -> None:
    found = scan(code, Policy.STRICT)
    assert [f.rule for f in found] == ["syntax"] or "a.a." in code
    assert line is None or found[0].line == line


@pytest.mark.parametrize(
    ("code", "expected"), [("", False), ("\n # x\n", False), ('"""doc"""', False), ("x = 1", True)]
)
def test_blank_and_comment_only_text_is_no_code(code: str, expected: bool) -> None:
    assert has_code(code) is expected


def test_unparsable_text_still_counts_as_code() -> None:
    assert has_code("def f(")
    assert not has_code("# (\n")


def test_findings_carry_line_and_advice() -> None:
    (found,) = errors(in_file("import inspect\n"))
    assert found.line == in_file("import inspect\n").splitlines().index("import inspect") + 1
    assert "inspect" in found.message


@pytest.mark.parametrize(
    "body", ["try:\n    triton_copy(x)\nexcept Exception:\n    pass", "try:\n    x\nexcept:\n    pass"]
)
def test_broad_except_is_only_a_warning(body: str) -> None:
    found = scan(in_forward(body), Policy.STRICT)
    assert [(f.rule, f.severity) for f in found] == [("broad-except", Severity.WARNING)]


@pytest.mark.parametrize(
    "line", ["__all__ = ['ModelNew']", "__version__ = '1'", "import logging\nlog = logging.getLogger('k')"]
)
def test_names_a_module_gives_itself_and_a_logger_are_fine(line):
    code = f"""{line}
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 0.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        kernel[(1,)](x, x.numel(), BLOCK=64)
        return x
"""
    assert [found for found in scan(code, Policy.STRICT) if found.severity is Severity.ERROR] == []
