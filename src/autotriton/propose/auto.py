"""`auto`: the compiler and, where a GPU and a model's weights are here, the model too. The best of both is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotriton import machine
from autotriton.errors import AutoTritonError
from autotriton.propose import model

AUTO = "auto"


def expanded(specs: Sequence[str], has_gpu: Callable[[], bool] | None = None) -> list[str]:
    """The specs with what `auto` stands for on this machine in its place, each once."""
    found: dict[str, None] = {}
    for spec in specs:
        names = _chosen(has_gpu or _has_gpu) if spec.strip() == AUTO else [spec]
        found.update(dict.fromkeys(names))
    return list(found)


def _chosen(has_gpu: Callable[[], bool]) -> list[str]:
    return ["compiler", "model"] if _has_model() and has_gpu() else ["compiler"]


def _has_model() -> bool:
    """Weights are where `model` looks for them, and the packages that read them are installed."""
    try:
        model.ready(None)
    except AutoTritonError:
        return False
    return True


def _has_gpu() -> bool:
    return machine.describe().gpu is not None
