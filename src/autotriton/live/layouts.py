"""Memory layouts: strides that mean the same, and what they become when the leading size changes."""

from __future__ import annotations

from collections.abc import Sequence

Sizes = tuple[int, ...]


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from the first to the last one in memory."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def contiguous(shape: Sequence[int]) -> Sizes:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def same(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """Equal strides, those of axes of one element aside: they never count."""
    return all(size <= 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    return same(shape, stride, contiguous(shape))


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Every element has its own place and there is none between them: contiguous in some order of the axes."""
    return same(shape, stride, _packed(shape, _order(shape, stride)))


def resized(shape: Sequence[int], stride: Sequence[int], leading: int) -> Sizes | None:
    """The strides a tensor of this layout has with another leading size; None where that cannot be told."""
    new = (leading, *shape[1:])
    if is_contiguous(shape, stride):
        return contiguous(new)
    if is_dense(shape, stride):
        return _packed(new, _order(shape, stride))
    inner = span(shape[1:], stride[1:])
    return tuple(stride) if stride[0] == 0 or stride[0] >= inner else None


def _order(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Axes from the fastest to the slowest; an axis of one element goes where a contiguous tensor has it."""
    return sorted(range(len(shape)), key=lambda axis: (stride[axis], -axis))


def _packed(shape: Sequence[int], order: Sequence[int]) -> Sizes:
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
