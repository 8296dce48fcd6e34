"""What a candidate's forward does with torch: operators counted, allocations poisoned and fenced.

A dispatch mode around the correctness runs. Fresh memory holds poison instead of zeros or somebody's answer, and lies
between guard bands, so that reading what was never written and writing past the end both show.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from autotriton.judge.arena import span_bytes
from autotriton.judge.blocking_names import is_compute
from autotriton.judge.costs import op_cost
from autotriton.judge.modes import EagerMode

_UNWRITTEN = frozenset(["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"])
_WRITTEN = frozenset(
    ["zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"]
)
_SMALL_CAST = 64  # elements; a handful of indices or flags may be converted
_LARGEST_FENCED = 1 << 30  # bytes; beyond it a second copy would cost more memory than it proves
POISONS = (float("nan"), -30111.0)


class Watch(EagerMode):  # type: ignore[no-untyped-call]
    """Counts operators and fences allocations while it is on; `violations` after the run names broken fences."""

    GUARD_BYTES = 4096
    """Of the bands before and behind each allocation."""

    def __init__(self, poison: int, *, count_cost: bool = False) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()
        self.moved_bytes: Counter[str] = Counter()
        """Bytes written by each operator, largest output counted."""
        self.casts: list[str] = []
        """Conversions of whole tensors that compute something."""
        self.cost = (0, 0)
        """FLOPs and bytes of the compute operators, where they are counted."""
        self._poison, self._counting = poison, count_cost
        self._fences: list[tuple[torch.Tensor, int, int]] = []
        self.ranges = Ranges()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        name = str(func.name())
        self.operators[name] += 1
        result = func(*args, **(kwargs or {}))
        if self._counting and is_compute(name):
            spent = op_cost(func, args, dict(kwargs or {}), result)
            self.cost = (self.cost[0] + spent.flops, self.cost[1] + spent.bytes)
        base = name.partition("::")[2].split(".")[0]
        if base in ("_to_copy", "copy_"):
            self._note_cast(args[0] if base == "_to_copy" else args[1], result)
        if isinstance(result, torch.Tensor):
            self.moved_bytes[name] += result.numel() * result.element_size()
            if base in _UNWRITTEN:
                return self._fenced(result, None)
            if base in _WRITTEN:
                return self._fenced(result, result)
        return result

    def _note_cast(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Float to integer truncates, anything to bool compares with zero: arithmetic in a cast's clothes."""
        truncates = source.is_floating_point() and not (target.is_floating_point() or target.is_complex())
        compares = target.dtype == torch.bool and source.dtype != torch.bool
        if (truncates or compares) and source.numel() > _SMALL_CAST:
            self.casts.append(f"{source.dtype} to {target.dtype}")

    def _fenced(self, like: torch.Tensor, content: torch.Tensor | None) -> torch.Tensor:
        """A tensor like this one between guard bands, holding poison or `content`."""
        size = span_bytes(like.shape, like.stride(), like.element_size())
        fit = like.numel() * like.element_size() == size and 0 < size <= _LARGEST_FENCED and not like.is_pinned()
        if not fit or like.layout != torch.strided:
            return like if content is not None or like.numel() == 0 else self._filled(like)
        guard = self.GUARD_BYTES // like.element_size()
        flat = self._filled(torch.empty(like.numel() + 2 * guard, dtype=like.dtype, device=like.device))
        inner = flat.as_strided(like.shape, like.stride(), guard)
        if content is not None:
            inner.copy_(content)
        self._fences.append((flat, guard, like.numel()))
        self.ranges.add(inner.data_ptr(), size)
        return inner

    def _filled(self, tensor: torch.Tensor) -> torch.Tensor:
        """What fresh memory and the bands around it hold."""
        return poisoned(tensor, self._poison)

    def broken_fences(self) -> int:
        """How many allocations were written past their ends."""
        return sum(1 for flat, guard, count in self._fences if not self._intact(flat, guard, count))

    def _intact(self, flat: torch.Tensor, guard: int, count: int) -> bool:
        want = self._filled(torch.empty(guard, dtype=flat.dtype, device="cpu"))
        bands = (flat[:guard].to("cpu"), flat[guard + count :].to("cpu"))
        return all(_same_bytes(band, want) for band in bands)


def poisoned(tensor: torch.Tensor, poison: int) -> torch.Tensor:
    """Fill with a value no honest computation leaves behind; two kinds, so that no one value is special."""
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(POISONS[poison])
    if tensor.dtype == torch.bool:
        return tensor.fill_(poison == 0)
    return tensor.fill_(torch.iinfo(tensor.dtype).max - 17 * poison if tensor.dtype != torch.uint8 else 0xA5 - poison)


def _same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    size = one.numel() * one.element_size()
    return size == other.numel() * other.element_size() and (
        ctypes.string_at(one.data_ptr(), size) == ctypes.string_at(other.data_ptr(), size)
    )


class Ranges:
    """Address ranges of known allocations, for finding the one an address belongs to."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, size: int) -> None:
        """A new allocation replaces whatever freed memory it lies over."""
        if size <= 0:
            return
        at = bisect.bisect_left(self._starts, start)
        while at > 0 and self._ends[at - 1] > start:
            at -= 1
        stop = at
        while stop < len(self._starts) and self._starts[stop] < start + size:
            stop += 1
        self._starts[at:stop] = [start]
        self._ends[at:stop] = [start + size]

    def find(self, address: int) -> tuple[int, int] | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._ends[at]:
            return self._starts[at], self._ends[at]
        return None

    def extend(self, ranges: Sequence[tuple[int, int]]) -> None:
        for start, size in ranges:
            self.add(start, size)
