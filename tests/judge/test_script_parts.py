"""A gold file's parts, and the rules for files without a module."""

from __future__ import annotations

import pytest

from autotriton.judge import rules
from autotriton.judge.scripts.parts import SEPARATOR, borrowed, completed, entries, script, split
from autotriton.types import Policy, Severity

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr):
    tl.store(x_ptr, 0.0)


def clear(x):
    _kernel[(1,)](x)


def helper(x):
    return x.shape
"""


def test_the_test_is_what_follows_the_last_separator() -> None:
    assert split(f"a\n{SEPARATOR}\nb\n{SEPARATOR}\nc\n") == (f"a\n{SEPARATOR}\nb\n", "\nc\n")
    with pytest.raises(ValueError, match="146"):
        split("a\n" + "#" * 145 + "\nb\n")


def test_script_puts_the_parts_together_as_the_suite_does() -> None:
    assert script("a", "b") == f"a\n{SEPARATOR}\nb"


def test_entries_are_what_the_test_uses_and_the_implementation_computes() -> None:
    implementation = """
import torch
torch.backends.cudnn.enabled = True
SIZE = 16
if True:
    class Function:
        pass
def unused():
    pass
def used():
    pass
def shadowed():
    pass
applied = Function.apply
"""
    test = "def shadowed():\n    pass\nused(SIZE, torch)\napplied(shadowed(), Function)\n"
    assert entries(f"{implementation}\n{SEPARATOR}\n{test}") == ("used", "applied", "Function")


def errors(code: str, names: tuple[str, ...]) -> list[str]:
    return [found.rule for found in rules.scan(code, Policy.STRICT, names) if found.severity is Severity.ERROR]


def test_every_entry_must_be_defined_and_one_must_reach_a_kernel() -> None:
    assert errors(KERNEL, ("clear", "helper")) == []
    assert errors(KERNEL, ("helper",)) == ["no-reachable-kernel"]
    assert errors(KERNEL, ("clear", "missing")) == ["no-entry"]
    assert errors(KERNEL, ()) == []


def test_code_borrows_those_imports_of_the_test_that_it_uses_and_does_not_bind() -> None:
    test = "import os, torch\nimport torch.nn.functional as F\nfrom math import pi, tau\ndef test():\n    import re\n"
    assert borrowed("def f(x):\n    return torch.add(x, tau)\n", test) == "import torch\nfrom math import tau"
    assert borrowed("import torch as F\ndef f(os, pi=1):\n    return F, os, pi, re\n", test) == ""
    assert completed("x = 1\n", test) == "x = 1\n"
    assert borrowed("def f(:\n", test) == ""


def test_rules_read_what_is_borrowed() -> None:
    code = KERNEL.replace("    return x.shape", "    return sp.gamma(x)")
    assert errors(completed(code, "import scipy as sp\n"), ("clear", "helper")) == ["import"]
