"""Which memory layouts an answer may have: the program's own strides, or where a backend chose them, any of a few.

A program fixes its strides by its views and its inputs; a backend fixes them where an operator is free to (attention
and some convolutions). Which it is shows in an execution without any backend, on torch's meta device: strides that
come out the same there belong to the program, and a caller may rely on them. Others are one backend's choice: the
reference's, the meta device's and plain contiguous ones are then equally right. Attention is known to have two layouts
(heads before or after the sequence), whichever one the reference's device and the meta device happen to agree on.
Must stay true: two elements of an answer never share memory unless the reference's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autotriton.errors import TaskError
from autotriton.judge.program import Program, flatten

Strides = tuple[int, ...]
_KNOWN: WeakKeyDictionary[Program, tuple[tuple[torch.Size, Strides] | None, ...]] = WeakKeyDictionary()


def alternatives(program: Program, index: int, value: Tensor, *, attention: bool = False) -> tuple[Strides, ...]:
    """Strides that output `index` may have besides the reference's; none where those are the program's own."""
    heads = (contiguous(value.shape), _sequence_first(value.shape)) if attention and value.dim() == 4 else ()
    if program not in _KNOWN:
        _KNOWN[program] = _without_backend(program)
    known = _KNOWN[program]
    plain = known[index] if index < len(known) else None
    if plain is None or plain[0] != value.shape or _same(value.shape, plain[1], value.stride()):
        return heads
    return (plain[1], contiguous(value.shape), *heads)


def layout_problem(value: Tensor, got: Tensor, others: Sequence[Strides]) -> str:
    """What is wrong with the layout of an answer of the right shape; empty where nothing is."""
    shape, stride = got.shape, got.stride()
    if any(_same(shape, stride, one) for one in (value.stride(), *others)):
        return ""
    if is_dense(shape, value.stride()):
        return f"has strides {stride} where {value.stride()} are expected: return the reference's memory layout"
    if overlaps(shape, stride):
        return f"has strides {stride}, with which elements share memory: return a tensor of its own"
    return ""


def contiguous(shape: Sequence[int]) -> Strides:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _sequence_first(shape: Sequence[int]) -> Strides:
    """Batch, heads, sequence, width; in memory the sequence comes before the heads."""
    batch, heads, sequence, width = shape
    plain = contiguous((batch, sequence, heads, width))
    return (plain[0], plain[2], plain[1], plain[3])


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Every byte of its memory span is one element."""
    step = 1
    for gap, size in _by_stride(shape, stride):
        if gap != step:
            return False
        step *= size
    return True


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Two elements may share memory, as after `expand`; layouts no view of a plain tensor has count as such."""
    reach = 0
    for gap, size in _by_stride(shape, stride):
        if gap <= reach:
            return True
        reach += gap * (size - 1)
    return False


def _by_stride(shape: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    if 0 in shape:
        return []
    return sorted((gap, size) for size, gap in zip(shape, stride, strict=True) if size != 1)


def _same(shape: Sequence[int], one: Sequence[int], two: Sequence[int]) -> bool:
    """Equal wherever it matters: the stride of an axis of one element, or of nothing, means nothing."""
    return 0 in shape or all(a == b for size, a, b in zip(shape, one, two, strict=True) if size != 1)


def _without_backend(program: Program) -> tuple[tuple[torch.Size, Strides] | None, ...]:
    """Shapes and strides of the outputs on the meta device; none where the program needs values to run."""
    try:
        plain = Program(program.task, "meta")
        leaves = flatten(plain.run(plain.build(0), plain.draw(0)))[0]
    except TaskError:
        return ()
    return tuple((leaf.shape, leaf.stride()) if isinstance(leaf, Tensor) else None for leaf in leaves)
