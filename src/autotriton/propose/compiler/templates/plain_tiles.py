"""Tile sizes of the plain way: one per kind of kernel, whatever the sizes, so that a model has nothing to guess."""

from __future__ import annotations

from autotriton.propose.compiler.templates.piece import Setting

_STEADY: tuple[Setting, ...] = (
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3, "GROUP_M": 8},
    {"BLOCK_M": 128, "BLOCK_N": 32, "BLOCK_K": 16, "num_warps": 4},
    {"BLOCK_M": 128, "num_warps": 4},
    {"BLOCK_R": 128, "BLOCK_C": 16, "num_warps": 4},
    {"BLOCK_W": 128, "num_warps": 4, "num_stages": 2},
    {"BLOCK_H": 16, "BLOCK_W": 32, "num_warps": 4, "num_stages": 2},
    {"BLOCK_LANES": 4, "BLOCK_N": 512, "PREFETCH": 1, "num_warps": 4},
    {"BLOCK_R": 4, "BLOCK_P": 512, "num_warps": 4, "num_stages": 3},
)
"""By their keys; how exactly a product is computed is not a matter of size."""
_ROW: Setting = {"BLOCK_R": 1, "BLOCK_C": 2048, "num_warps": 8}


def steady(setting: Setting) -> Setting:
    """The one choice for a kernel with these settings; a kind that is not listed keeps its own."""
    if setting.keys() == _ROW.keys() and setting["BLOCK_R"] == 1:
        return _ROW
    found = next((each for each in _STEADY if each.keys() == setting.keys() - {"PRECISION"}), {})
    return {**setting, **found}
