"""What the compiler's figures rule out."""

from __future__ import annotations

from autotriton.tune.prune import KB, Compiled, in_order, why_not


def test_what_fits_can_run():
    assert why_not([Compiled(), Compiled(shared_bytes=227 * KB)], 227 * KB) is None


def test_too_much_shared_memory_is_refused_with_both_numbers():
    reason = why_not([Compiled(shared_bytes=10), Compiled(shared_bytes=227 * KB + 1)], 227 * KB)
    assert reason == "needs 228 KB of shared memory, the GPU has 227 KB per block"


def test_what_the_compiler_refused_is_refused():
    assert why_not([Compiled(error="CompilationError: no")], 0) == "CompilationError: no"


def test_spillers_come_last_and_the_rest_keeps_its_order():
    assert in_order([3, 1, 2, 0], {3: 0, 1: 40, 2: 8}) == [3, 0, 2, 1]
