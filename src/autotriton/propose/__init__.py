"""Proposers: where candidates come from. One method each, see `base.py`."""

from autotriton.propose.base import Proposer

__all__ = ["Proposer"]
