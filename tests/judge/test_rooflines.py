"""The bound a claim is measured against, with numbers worked by hand."""

from __future__ import annotations

import pytest

from autotriton.judge.processes import Gpu
from autotriton.judge.rooflines import PEAKS, roofline_seconds
from autotriton.types import Task

TASK = Task(id="task", source="source")


def gpu(name: str) -> Gpu:
    return Gpu(name, "9.0", 141 << 30, 60 << 20, 132)


def about(dtype: str = "float32", required_bytes: float = 0.0, flops: float = 0.0) -> dict[str, object]:
    return {"compute_dtype": dtype, "required_bytes": required_bytes, "flops": flops}


def test_moving_bytes_is_bounded_by_bandwidth():
    assert roofline_seconds(gpu("NVIDIA H200"), about(required_bytes=4.8e9), TASK) == pytest.approx(1e-3)
    assert roofline_seconds(gpu("NVIDIA H100 80GB HBM3"), about(required_bytes=3.35e9), TASK) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("dtype", "tf32", "rate"),
    [
        ("float32", False, 989e12 / 3),  # three bf16 products make one that is exact enough
        ("float32", True, 495e12),
        ("float64", False, 67e12),
        ("bfloat16", False, 989e12),
        ("float16", False, 989e12),
    ],
)
def test_computing_is_bounded_by_the_rate_of_its_dtype(dtype, tf32, rate):
    task = TASK.model_copy(update={"tf32": tf32})
    assert roofline_seconds(gpu("NVIDIA H200"), about(dtype, flops=rate / 100), task) == pytest.approx(0.01)


def test_the_slower_of_both_counts():
    both = about("bfloat16", required_bytes=4.8e9, flops=989e12)
    assert roofline_seconds(gpu("NVIDIA H200"), both, TASK) == pytest.approx(1.0)


def test_a_gpu_without_figures_has_no_roofline():
    assert roofline_seconds(gpu("Fictional 9000"), about(required_bytes=1.0), TASK) is None
    assert roofline_seconds(None, about(required_bytes=1.0), TASK) is None


def test_no_name_is_part_of_another():
    assert [(one, two) for one in PEAKS for two in PEAKS if one != two and one in two] == []
