"""What is said about a program's sizes is true of it."""

from __future__ import annotations

from autotriton.data.pairs.facts import facts

KERNEL = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef copy(x_ptr, n):\n    pass\n\n\n"


def test_sizes_taken_from_a_tensor_are_read():
    assert facts(KERNEL + "def run(x):\n    n = x.numel()\n    copy[(n,)](x, n)\n    return x\n").reads_shapes


def test_a_guard_over_fixed_sizes_reads_none():
    guard = "def run(x):\n    if tuple(x.shape) != (4, 8):\n        raise ValueError(x)\n"
    assert not facts(f"{KERNEL}{guard}    copy[(32,)](x, 32)\n    return x\n").reads_shapes
