"""Triton on a real GPU, observed: launches counted, compiled kernels described, launches turned into no-ops on demand.

Wraps `JITFunction.run` in the candidate's process. A no-op still compiles, so an honest candidate behaves the same but
for the missing work.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from triton.runtime.jit import JITFunction

from autotriton.judge.launchers import Types, launched_types


class Native:
    """Installed once per process, before the candidate is imported."""

    def __init__(self) -> None:
        self.noop = False
        self.counts: Counter[str] = Counter()
        self.kernels: dict[str, dict[str, Any]] = {}
        self.types: set[Types] = set()
        """Lists of argument types that were launched with."""
        original = JITFunction.run
        witness = self

        def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            kernel = original(self, *args, grid=grid, warmup=warmup or witness.noop, **kwargs)
            if not warmup:
                witness._note(self, kernel)
            return kernel

        JITFunction.run = run

    def _note(self, function: Any, kernel: Any) -> None:
        name = function.fn.__name__
        self.counts[name] += 1
        types = launched_types(kernel)
        if types is not None:
            self.types.add(types)
        # Registers and spills are known once the kernel is loaded on the device; keep the largest variant.
        spills, registers = getattr(kernel, "n_spills", None), getattr(kernel, "n_regs", None)
        shared = getattr(getattr(kernel, "metadata", None), "shared", None)
        known = self.kernels.setdefault(name, {"registers": None, "spills": None, "shared_bytes": None})
        for key, value in (("registers", registers), ("spills", spills), ("shared_bytes", shared)):
            if isinstance(value, int) and value > (known[key] if known[key] is not None else -1):
                known[key] = value
