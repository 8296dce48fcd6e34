"""Pooling: every kind against torch, in the interpreter, with bounds checked; NaN and infinities included."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from further import marked, wanted  # noqa: E402
from one_kernel import Trial, node_of, run_all  # noqa: E402

from autotriton.propose.compiler.templates.pool import FAMILIES  # noqa: E402

pytestmark = pytest.mark.interp

F = torch.nn.functional
BOUNDS = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float64: 1e-14}


def _x(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def _special(*shape: int) -> Any:
    x = _x(*shape)
    flat = x.view(-1)
    flat[::5], flat[3], flat[7], flat[-9:] = -float("inf"), float("nan"), float("inf"), -float("inf")
    return x


TRIALS = {
    "max": Trial(lambda x: F.max_pool2d(x, 3, 2, 1), (_x(2, 3, 11, 12),), more=((_x(3, 3, 11, 12),),)),
    "max_special": Trial(lambda x: F.max_pool2d(x, 3, 2, 1), (_special(2, 3, 11, 12),)),
    "max_1d_dilated": Trial(lambda x: F.max_pool1d(x, 8, 1, 4, 3), (_x(2, 3, 40),)),
    "max_3d_ceil": Trial(lambda x: F.max_pool3d(x, 2, 2, ceil_mode=True), (_x(1, 3, 5, 6, 7),)),
    "max_ceil_padded": Trial(lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True), (_x(1, 2, 6, 7),)),
    "max_indices": Trial(lambda x: F.max_pool2d(x, 3, 2, 1, 2, return_indices=True), (_special(2, 3, 11, 12),)),
    "max_3d_indices": Trial(lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), (_special(1, 2, 5, 6, 7),)),
    "max_double": Trial(lambda x: F.max_pool2d(x, 2), (_x(1, 5, 11, 12, dtype=torch.float64),)),
    "max_brain": Trial(lambda x: F.max_pool2d(x, 2), (_x(1, 5, 7, 8, dtype=torch.bfloat16),)),
    "max_of_view": Trial(lambda x: F.max_pool2d(x.transpose(2, 3), 2), (_x(1, 5, 11, 12),)),
    "average": Trial(lambda x: F.avg_pool2d(x, 3, 2, 1), (_x(2, 3, 11, 12),)),
    "average_special": Trial(lambda x: F.avg_pool2d(x, 3, 2, 1), (_special(2, 3, 11, 12),)),
    "average_of_inside": Trial(
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (_x(2, 3, 11, 12),)
    ),
    "average_ceil": Trial(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (_x(2, 3, 12, 12),)),
    "average_divisor": Trial(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (_x(2, 3, 12, 12),)),
    "average_1d": Trial(lambda x: F.avg_pool1d(x, 8, 1, 4), (_x(2, 3, 50),)),
    "average_3d": Trial(lambda x: F.avg_pool3d(x, 3, 2, 1), (_x(1, 3, 6, 7, 8),)),
    "average_wide": Trial(lambda x: F.avg_pool2d(x, 11), (_x(2, 3, 40, 50),)),
    "average_wide_1d": Trial(lambda x: F.avg_pool1d(x, 7, 5), (_x(2, 3, 50, dtype=torch.bfloat16),)),
    "average_one_image": Trial(lambda x: F.avg_pool2d(x, 2), (_x(5, 11, 12),)),
    "strip_max": Trial(lambda x: F.max_pool2d(x, 4, 1, 1), (_special(1, 2, 40, 70),), more=((_x(2, 1, 33, 65),),)),
    "strip_max_step": Trial(lambda x: F.max_pool2d(x, (5, 3), (2, 1), (2, 1), (1, 2)), (_x(1, 2, 70, 70),)),
    "strip_max_ceil": Trial(lambda x: F.max_pool2d(x, 4, 2, 1, ceil_mode=True), (_x(1, 1, 67, 131),)),
    "strip_average": Trial(lambda x: F.avg_pool2d(x, 3, 1, 1), (_x(1, 2, 34, 66),)),
    "strip_average_of_inside": Trial(
        lambda x: F.avg_pool2d(x, 4, 2, 1, ceil_mode=True, count_include_pad=False), (_x(1, 1, 67, 131),)
    ),
    "strip_average_ceil": Trial(lambda x: F.avg_pool2d(x, 4, 2, 1, ceil_mode=True), (_x(1, 1, 67, 131),)),
    "strip_3d": Trial(lambda x: F.max_pool3d(x, 3, 1, 1, (2, 1, 1)), (_x(1, 1, 4, 34, 64),)),
    "strip_average_3d": Trial(
        lambda x: F.avg_pool3d(x, (2, 3, 3), 1, (1, 1, 1), divisor_override=7), (_x(1, 2, 33, 64),)
    ),
    "global_average": Trial(lambda x: F.adaptive_avg_pool2d(x, 1), (_x(2, 5, 11, 12),), more=((_x(1, 5, 11, 12),),)),
    "global_half": Trial(lambda x: F.adaptive_avg_pool3d(x, 1), (_x(2, 5, 4, 5, 6, dtype=torch.float16),)),
    "global_max": Trial(lambda x: F.adaptive_max_pool2d(x, 1), (_special(2, 5, 11, 12),)),
    "adaptive": Trial(lambda x: F.adaptive_avg_pool2d(x, (3, None)), (_x(2, 5, 11, 12),)),
    "adaptive_1d": Trial(lambda x: F.adaptive_avg_pool1d(x, 5), (_x(2, 5, 12),)),
    "adaptive_more": Trial(lambda x: F.adaptive_avg_pool2d(x, 7), (_x(1, 2, 5, 6),)),
    "adaptive_indices": Trial(lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True), (_x(2, 5, 11, 12),)),
}


# Other shapes of what is tried anyway: ends that do not fit, dimensions and types.
MORE = frozenset(
    ("max_ceil_padded", "max_3d_indices", "max_of_view", "average_1d", "average_wide_1d", "average_one_image",
     "average_ceil", "strip_max_ceil", "strip_average_ceil", "adaptive_1d", "adaptive_more")
)  # fmt: skip


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(TRIALS, MORE, request), FAMILIES, tmp_path_factory.mktemp("pool"))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", marked(TRIALS, MORE))
def test_pooling_is_as_exact_as_its_type(name: str, results: dict[str, Any]) -> None:
    trial = TRIALS[name]
    for found, inputs in zip(results[name], (trial.inputs, *trial.more), strict=True):
        assert not isinstance(found, str), found
        bound = BOUNDS[inputs[0].dtype]
        expected = _as_tuple(trial.function(*(value.double() for value in inputs)))
        for one, other in zip(_as_tuple(found), expected, strict=False):
            assert one.shape == other.shape
            torch.testing.assert_close(one.double(), other.double(), rtol=bound, atol=bound, equal_nan=True)
    assert len(_as_tuple(results[name][0])) >= len(expected)


def test_indices_nobody_asks_for_are_not_computed(results: dict[str, Any]) -> None:
    values, indices = results["global_max"][0]
    assert values.shape == (2, 5, 1, 1)
    assert indices is None


def test_pooling_of_integers_is_not_accepted() -> None:
    trial = Trial(lambda x: F.max_pool2d(x, 2), (torch.ones(1, 2, 4, 4, dtype=torch.int32),))
    node, _ = node_of(trial, FAMILIES)
    assert not FAMILIES[node.target].accepts(node)
