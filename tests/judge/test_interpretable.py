"""Which kernels the interpreter is believed about."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from autotriton.judge.interpretable import KNOWN, believable

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.exp(tl.load(x_ptr + at, mask=at < n)), mask=at < n)
"""


def test_a_plain_kernel_is_believed():
    assert believable(KERNEL)


@pytest.mark.parametrize(
    "line",
    [
        "tl.inline_asm_elementwise('', '', [], tl.float32, True, 1)",
        "tl.dot_scaled(a, b, c)",
        "tl.associative_scan(x, 0, f)",
        "tl.extra.cuda.libdevice.tanh(x)",
        "tl.make_tensor_descriptor(p, s, t, b)",
    ],
)
def test_a_name_outside_the_list_is_not_believed(line):
    assert not believable(KERNEL + f"    {line}\n")


def test_names_under_another_alias_are_looked_at():
    code = KERNEL.replace("as tl", "as L").replace("tl.", "L.")
    assert believable(code)
    assert not believable(code + "    L.inline_asm_elementwise()\n")


@pytest.mark.parametrize("line", ["from triton.language import exp", "from triton.language.extra import libdevice"])
def test_names_imported_from_the_language_are_not_believed(line):
    assert not believable(f"{line}\n{KERNEL}")


@pytest.mark.parametrize("code", ["def (", "\0", "(" * 100_000, "1" * 5000 + " = 1"])
def test_what_does_not_parse_is_not_believed(code):
    assert not believable(code)


def test_most_honest_kernels_of_the_corpus_are_believed():
    folder = Path(__file__).parent.parent / "cheats" / "honest"
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    assert sum(map(believable, sources)) >= 0.9 * len(sources)


@pytest.mark.interp
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_every_known_name_exists_in_triton():
    import triton.language as tl

    gone = {"advance"}  # left the language in triton 3.9
    assert {name for name in KNOWN if not hasattr(tl, name)} <= gone
