"""One author's habits, drawn per program."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Style:
    nested: float
    """How often a value used once is written into its user."""
    variables: str
    """`same` (x = f(x)), `nouns` (conv_out, pooled), `numbered` (t1, t2), `short` (h, y, z)."""
    constants: str
    """Sizes: `top` (named at module level), `caps` (the same in capitals), `literal`."""
    hyper: bool
    """The constructor takes its sizes as arguments."""
    named_scalars: bool
    helpers: bool
    sequential: bool
    """Layers one behind the other stand in an `nn.Sequential`."""
    docstrings: str
    """`none`, `class`, `both`, `module`."""
    hints: bool
    old_super: bool
    constants_first: bool
    """Sizes above the class, not below it."""
    return_variable: bool
    quotes: str
    configured: bool = False
    """The constructor takes what its layers and reductions may be told, most of it with a default."""


def draw_style(rng: random.Random, sequential_share: float = 0.0, configured_share: float = 0.0) -> Style:
    style = Style(
        nested=rng.choice((0.0, 0.0, 0.15, 0.5, 0.9)),
        variables=rng.choice(("same", "same", "same", "nouns", "nouns", "numbered", "short")),
        constants=rng.choice(("top", "top", "literal", "caps")),
        hyper=rng.random() < 0.65,
        named_scalars=rng.random() < 0.35,
        helpers=rng.random() < 0.25,
        sequential=rng.random() < sequential_share,
        docstrings=rng.choice(("none", "none", "class", "class", "both", "module")),
        hints=rng.random() < 0.35,
        old_super=rng.random() < 0.35,
        constants_first=rng.random() < 0.4,
        return_variable=rng.random() < 0.25,
        quotes=rng.choice(("'", '"')),
    )
    # Drawn last and only where asked for: programs of other seeds stay as they are.
    if not configured_share or rng.random() >= configured_share:
        return style
    named = style.named_scalars or rng.random() < 0.4
    return replace(style, configured=True, hyper=True, sequential=False, named_scalars=named)
