"""The ways a task is lowered: what Inductor decides by rules of thumb, a judge and a tuner can decide by measuring.

Inductor's `multi_kernel` chooses between a persistent and a looped reduction at run time; here `looped` is a variant
instead, so that the emitted file holds one of them. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

DEFAULT = "default"
ATTENTION = "attention"


def _always(wrapper: str) -> bool:
    return True


def _has(pattern: str) -> Callable[[str], bool]:
    def applies(wrapper: str) -> bool:
        return re.search(pattern, wrapper) is not None

    return applies


@dataclass(frozen=True)
class Variant:
    """One way: Inductor's options for it, and whether it can make a difference to what the default gave."""

    name: str
    about: str
    options: dict[str, object] = field(default_factory=dict)
    applies: Callable[[str], bool] = _always
    """Asked with the default's wrapper."""


VARIANTS = (
    Variant(ATTENTION, "scaled_dot_product_attention by the flash kernel of flex_attention"),
    Variant(DEFAULT, "Inductor's own choices"),
    Variant(
        "looped",
        "reductions that walk along their rows instead of holding them",
        {"triton.persistent_reductions": False},
        _has(r"\btriton_per_\w+\.run\("),
    ),
    Variant(
        "unsplit",
        "no reduction in two steps",
        {"split_reductions": False},
        _has(r"\btriton_red_\w+\.run\([\s\S]*\btriton_(red|per)_\w+\.run\("),
    ),
    Variant(
        "channels_last",
        "convolutions over tensors with the channels last",
        {"layout_optimization": True, "force_layout_optimization": True},
        _has(r"\btriton_tem_\w*convolution\w*\.run\("),
    ),
    Variant(
        "separate_epilogue",
        "what follows a matrix product or a convolution in a kernel of its own",
        {"epilogue_fusion": False},
        _has(r"\btriton_tem_fused_(?!(mm|bmm|addmm|convolution)_\d)\w+\.run\("),
    ),
    Variant(
        "nd_tiling",
        "tiles of two and three dimensions for element-wise kernels",
        {"triton.prefer_nd_tiling": True, "triton.max_tiles": 3},
        _has(r"\btriton_poi_\w+\.run\("),
    ),
)
