"""Sizes of tensors at four scales: what Triton's interpreter verifies in about a second, what it verifies fastest (for
programs that are the same at every size), a few long rows and wide layers, for which a kernel has to loop and which it
still verifies, and what fills a GPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

Scale = Literal["laptop", "small", "long", "gpu"]
SCALES: tuple[str, ...] = get_args(Scale)


@dataclass(frozen=True)
class Sizes:
    """Choices per kind of axis; odd and awkward ones are among them."""

    batch: tuple[int, ...]
    channels: tuple[int, ...]
    features: tuple[int, ...]
    length: tuple[int, ...]
    image: tuple[int, ...]
    volume: tuple[int, ...]
    heads: tuple[int, ...]
    head: tuple[int, ...]
    classes: tuple[int, ...]
    elements: int
    """Most elements of one tensor."""
    work: int
    """Most multiplications of one product or convolution."""


_LAPTOP = Sizes(
    batch=(1, 2, 2, 3, 4, 4, 5, 8),
    channels=(1, 3, 4, 6, 8, 8, 12, 16),
    features=(7, 8, 16, 16, 24, 32, 32, 33, 48, 64, 64, 65, 100, 128),
    length=(1, 5, 8, 12, 16, 16, 24, 31, 32, 48),
    image=(5, 7, 8, 8, 9, 12, 14, 16),
    volume=(3, 4, 4, 5, 6, 8),
    heads=(1, 2, 2, 4),
    head=(8, 16, 16, 32),
    classes=(2, 5, 10, 16, 33),
    elements=1 << 14,
    work=1 << 20,
)
# No axis of size 1: a program is written without it, and a model that sees many of those forgets the batch.
_SMALL = Sizes(
    batch=(2, 2, 3, 4, 5),
    channels=(2, 3, 4, 6, 8, 8, 12),
    features=(7, 8, 12, 16, 24, 32, 33, 48, 64, 65),
    length=(5, 8, 9, 12, 16, 24),
    image=(5, 6, 7, 8, 9, 10),
    volume=(3, 4, 5, 6),
    heads=(2, 2, 4),
    head=(8, 16),
    classes=(5, 10, 16, 33),
    elements=1 << 13,
    work=1 << 17,
)
_LONG = Sizes(
    batch=(1, 1, 2, 2, 3, 4),
    channels=(3, 8, 16, 16, 24, 32, 48, 64),
    features=(129, 256, 512, 1000, 1024, 2048, 3000, 4096, 8192, 10000, 16384, 20000, 32768),
    length=(2, 16, 77, 128, 196, 256, 512, 1000),
    image=(8, 14, 16, 20, 28, 32, 56, 64),
    volume=(6, 8, 10, 12, 16),
    heads=(2, 4, 8),
    head=(16, 32, 64),
    classes=(10, 100, 1000, 4096),
    elements=1 << 16,
    work=1 << 22,
)
_GPU = Sizes(
    batch=(1, 4, 8, 16, 16, 32, 64, 100, 128),
    channels=(3, 16, 32, 48, 64, 64, 96, 128, 256),
    features=(127, 256, 512, 768, 1000, 1024, 1024, 2048, 3072, 4096, 8192, 8192, 10000, 16384, 32768),
    length=(77, 128, 196, 256, 512, 512, 1000, 1024, 2048, 4096),
    image=(14, 28, 31, 32, 56, 64, 64, 112, 128, 224, 256),
    volume=(8, 12, 16, 16, 24, 32),
    heads=(4, 8, 8, 12, 16),
    head=(32, 64, 64, 128),
    classes=(10, 100, 1000, 4096),
    elements=1 << 24,
    work=1 << 34,
)


def sizes_for(scale: str) -> Sizes:
    return {"laptop": _LAPTOP, "small": _SMALL, "long": _LONG, "gpu": _GPU}[scale]


def draw_shape(rng: random.Random, sizes: Sizes, kind: str) -> tuple[int, ...]:
    """A shape of a kind: `matrix`, `sequence`, `signal` (1d), `image` (2d), `volume` (3d), `vector`, `any`."""
    if kind == "any":
        kind = rng.choice(("matrix", "matrix", "sequence", "image", "vector", "cube"))
    axes = {
        "vector": ("features",),
        "matrix": ("batch", "features"),
        "tall": ("length", "features"),
        "sequence": ("batch", "length", "features"),
        "cube": ("batch", "channels", "features"),
        "signal": ("batch", "channels", "length"),
        "image": ("batch", "channels", "image", "image"),
        "volume": ("batch", "channels", "volume", "volume", "volume"),
        "heads": ("batch", "heads", "length", "head"),
    }[kind]
    shape = [rng.choice(getattr(sizes, axis)) for axis in axes]
    if kind in ("image", "volume") and rng.random() < 0.5:
        shape[3:] = [shape[2]] * len(shape[3:])
    return _within(shape, sizes.elements)


def _within(shape: list[int], most: int) -> tuple[int, ...]:
    """Halve the largest axis until the tensor is small enough."""
    while _product(shape) > most:
        largest = max(range(len(shape)), key=lambda axis: shape[axis])
        shape[largest] = max(1, shape[largest] // 2)
    return tuple(shape)


def _product(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
