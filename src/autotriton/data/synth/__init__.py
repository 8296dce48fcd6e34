"""Synthesis: a typed, shape-aware, seeded generator of PyTorch programs. No torch is imported here."""

from __future__ import annotations

from autotriton.data.synth.ops import TABLE
from autotriton.data.synth.recipes import RECIPES
from autotriton.data.synth.synthesis import SYNTH_VERSION, stream, synthesise

__all__ = ["RECIPES", "SYNTH_VERSION", "TABLE", "stream", "synthesise"]
