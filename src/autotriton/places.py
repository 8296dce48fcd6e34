"""Where models lie by default: the one place that decides it, for those that fetch weights and those that use them."""

from __future__ import annotations

from pathlib import Path

MODELS = "models"
DEFAULT_MODEL = "qwen2.5-coder-1.5b"


def model_folder(name: str = DEFAULT_MODEL) -> Path:
    """The folder of a model, relative to the current one."""
    return Path(MODELS) / name
