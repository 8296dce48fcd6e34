"""What the compiler's figures say before a setting gets any GPU time: what cannot run, and what to try last. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KB = 1024


@dataclass(frozen=True)
class Compiled:
    """What one kernel of one setting needs, or why it has no binary."""

    shared_bytes: int = 0
    """Per block."""
    error: str | None = None
    """The compiler refused the kernel, and why."""


def why_not(kernels: Sequence[Compiled], shared_limit: int) -> str | None:
    """Why a setting that launches these kernels cannot run on this GPU, as one line; None when it can."""
    for kernel in kernels:
        if kernel.error is not None:
            return kernel.error
        if kernel.shared_bytes > shared_limit:
            needed = f"needs {-(-kernel.shared_bytes // KB)} KB of shared memory"
            return f"{needed}, the GPU has {shared_limit // KB} KB per block"
    return None


def in_order(settings: Sequence[int], spills: Mapping[int, int]) -> list[int]:
    """The order given (best guess first), but what spills comes after what does not, the worst spiller last."""
    return sorted(settings, key=lambda setting: spills.get(setting, 0))
