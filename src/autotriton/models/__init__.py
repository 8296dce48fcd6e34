"""Weights: fetched, verified, converted, merged, and packed for a machine without network."""

from autotriton.models.known import KNOWN, Known, known

__all__ = ["KNOWN", "Known", "known"]
