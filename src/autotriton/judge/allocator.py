"""Memory torch keeps for its next allocation is missing elsewhere on a crowded GPU. It is given back while others need
it, and taken again before a clock runs, so that no timed call waits for the driver.

The functions are taken before a candidate is loaded.
"""

from __future__ import annotations

import contextlib

import torch

LARGE_BYTES = 512 << 20
"""Of inputs and outputs together: below, what is kept is not worth giving back."""
_empty = torch.empty
_empty_cache = torch.cuda.empty_cache
_reserved = torch.cuda.memory_reserved


class Kept:
    """What this process keeps on the GPU beyond its tensors."""

    def __init__(self) -> None:
        self._missing = 0

    def give_back(self) -> None:
        before = _reserved()
        _empty_cache()
        self._missing = max(self._missing, before - _reserved())

    def take_again(self) -> None:
        """As much as was given back, in one piece, of which the allocator cuts what it is asked for."""
        if self._missing:
            # A neighbour may have it by now: then the next call takes what it needs, if it is there.
            with contextlib.suppress(torch.OutOfMemoryError):
                _empty(self._missing, dtype=torch.uint8, device="cuda")
            self._missing = 0
