"""Harvest: self-contained modules and functions from Python packages on disk. Nothing of them runs here."""

from __future__ import annotations

from autotriton.data.harvest.harvesting import Report, harvest

__all__ = ["Report", "harvest"]
