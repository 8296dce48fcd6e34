"""Training or held-out, by graph: a graph's tasks all go to one side, whatever their sizes and names.

A hash decides, so the sides stay the same when tasks are added later.
"""

from __future__ import annotations

import hashlib

HELD_OUT, REINFORCE, TEACH = "held_out", "rl", "sft"


def side(graph: str, difficulty: str, shares: dict[str, float], seed: int = 0) -> str:
    """Where the tasks of a graph go. `shares` has the part held out, and the part of each difficulty kept for RL."""
    place = unit(f"{seed}:{graph}")
    if place < shares[HELD_OUT]:
        return HELD_OUT
    return REINFORCE if unit(f"{seed}:rl:{graph}") < shares.get(difficulty, 0.0) else TEACH


def unit(text: str) -> float:
    """0 to 1, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
