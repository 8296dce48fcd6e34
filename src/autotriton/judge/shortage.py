"""Whether an error means that memory ran out.

Inside the sandbox there is no NVML. PyTorch asks it for details while it reports that the GPU's memory is used up, and
then fails with an internal assertion instead.
"""

from __future__ import annotations

import torch

_ASSERTION = ("CUDACachingAllocator", "nvml")


def out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and all(word in str(error) for word in _ASSERTION)
