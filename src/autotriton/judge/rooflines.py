"""What the hardware could do at best: the bound a claim is measured against.

Peaks are vendor figures for dense work. fp32 may be computed exactly enough from split bf16 products on tensor cores
(three products at the least), so that is the fp32 bound, not the plain fp32 units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotriton.judge.processes import Gpu
from autotriton.types import Task


@dataclass(frozen=True)
class Peaks:
    """Bytes per second, and dense FLOP per second by kind of arithmetic."""

    bandwidth: float
    bf16: float
    tf32: float
    fp64: float


PEAKS = {
    "H200": Peaks(4.8e12, 989e12, 495e12, 67e12),
    "H100": Peaks(3.35e12, 989e12, 495e12, 67e12),
    "A100": Peaks(2.04e12, 312e12, 156e12, 19.5e12),
    "B200": Peaks(8.0e12, 2250e12, 1125e12, 40e12),
    "L40S": Peaks(0.864e12, 362e12, 183e12, 1.4e12),
    "4090": Peaks(1.008e12, 165e12, 82.6e12, 1.3e12),
    "3090": Peaks(0.936e12, 71e12, 35.6e12, 0.56e12),
}


def roofline_seconds(gpu: Gpu | None, about: dict[str, Any], task: Task) -> float | None:
    """The least time the task's reference could take on this GPU; None for a GPU without figures."""
    peaks = next((peaks for name, peaks in PEAKS.items() if gpu is not None and name in gpu.name), None)
    if peaks is None:
        return None
    kinds = {"float64": peaks.fp64, "float32": peaks.tf32 if task.tf32 else peaks.bf16 / 3}
    rate = kinds.get(str(about["compute_dtype"]), peaks.bf16)
    return max(float(about["required_bytes"]) / peaks.bandwidth, float(about["flops"]) / rate)
