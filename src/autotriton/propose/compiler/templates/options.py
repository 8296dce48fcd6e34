"""The ways a task is written: what rules of thumb decide, a judge and a tuner can decide by measuring.

Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_COLUMNS = 8192
"""Rows up to this long are kept in registers."""


@dataclass(frozen=True)
class Options:
    """One way. The first is the engine's own choice everywhere; each other one changes a single choice."""

    name: str = ""
    about: str = "the engine's own choices"
    whole_columns: int = WHOLE_COLUMNS
    split_sums: bool = True
    """Long sums with few results may be shared among programs: reductions in parts, K of a product split."""
    split_operands: bool | None = None
    """fp32 operands of products and convolutions as sums of fp16 parts, made beforehand: None where it pays."""
    fused: bool = True
    """What follows a product, a convolution or another family's operator element by element is in its kernel."""
    plain: bool = False
    """The shortest form, the same whatever the sizes: `conv_plain.py`, `plain_tiles.py`."""
    strips: bool = True
    """Pooling windows that overlap from row to row share what they have in common."""


DEFAULT = Options()
VARIANTS = (
    Options("looped", "reductions that walk along their rows instead of holding them", whole_columns=512),
    Options("unsplit", "no reduction and no product in two steps", split_sums=False),
    Options("in_kernel", "fp32 products split into parts inside their kernels", split_operands=False),
    Options("presplit", "fp32 products of operands split into parts beforehand", split_operands=True),
    Options("separate_epilogue", "what follows a product or a convolution in a kernel of its own", fused=False),
    Options("windows", "pooling windows one by one, whatever they share", strips=False),
)
PLAIN = Options(
    "plain",
    "the shortest programs, the same at every size: convolutions tap by tap, rows in a loop, nothing in two steps",
    whole_columns=0,
    split_sums=False,
    split_operands=False,
    strips=False,
    plain=True,
)
"""As they are taught: slower, so nothing a tuner should try."""
WAYS = {options.name: options for options in (DEFAULT, *VARIANTS, PLAIN)}
