"""Sorting: values and indices against torch's stable sort."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from single_piece import Case, accepted, run_all  # noqa: E402

pytestmark = pytest.mark.interp


def _x(*shape: int, dtype: Any = torch.float32) -> Any:
    """Numbers with many equals among them."""
    values = (torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 5).round()
    return values.to(dtype)


def _special() -> Any:
    x = _x(4, 30)
    x[0, 3], x[0, 20], x[1, 5], x[2, 6], x[3, 0] = float("nan"), float("nan"), float("inf"), -float("inf"), -0.0
    return x


def _distinct(rows: int, columns: int) -> Any:
    return torch.stack([torch.randperm(columns, generator=torch.Generator().manual_seed(r)) for r in range(rows)])


STABLE = {
    "ascending": Case(lambda x: torch.sort(x, stable=True), (_x(5, 100),), more=((_x(9, 37),), (_x(2, 700),))),
    "descending": Case(lambda x: torch.sort(x, descending=True, stable=True), (_x(5, 100),)),
    "columns": Case(lambda x: torch.sort(x, dim=0, stable=True), (_x(70, 6),)),
    "middle": Case(lambda x: torch.sort(x, dim=1, stable=True, descending=True), (_x(3, 20, 4),)),
    "strided": Case(lambda x: torch.sort(x, dim=1, stable=True), (_x(40, 6).t(),)),
    "vector": Case(lambda x: torch.sort(x, stable=True), (_x(33),)),
    "special": Case(lambda x: torch.sort(x, stable=True), (_special(),)),
    "special_descending": Case(lambda x: torch.sort(x, stable=True, descending=True), (_special(),)),
    "half": Case(lambda x: torch.sort(x, stable=True), (_x(5, 50, dtype=torch.float16),)),
    "brain": Case(lambda x: torch.sort(x, stable=True), (_x(5, 50, dtype=torch.bfloat16),)),
    "double": Case(lambda x: torch.sort(x, stable=True), (_x(5, 50, dtype=torch.float64),)),
    "long": Case(lambda x: torch.sort(x, stable=True, descending=True), (_x(5, 50, dtype=torch.int64) * 2**40,)),
    "bytes": Case(lambda x: torch.sort(x, stable=True), (_x(5, 50).abs().to(torch.uint8),)),
}
DISTINCT = {
    "plain": Case(lambda x: torch.sort(x), (_distinct(4, 60),)),
    "best": Case(lambda x: torch.topk(x, 7), (_distinct(4, 60),), more=((_distinct(9, 60),),)),
    "least": Case(lambda x: torch.topk(x, 5, dim=0, largest=False), (_distinct(4, 60).t(),)),
    "best_of_many": Case(lambda x: torch.topk(x, 5), (_distinct(2, 9000).float(),)),
    "least_of_many": Case(lambda x: torch.topk(x, 33, largest=False), (_distinct(1, 9000),)),
    "third": Case(lambda x: torch.kthvalue(x, 3), (_distinct(4, 60).float(),)),
    "third_kept": Case(lambda x: torch.kthvalue(x, 3, dim=0, keepdim=True), (_distinct(4, 60).t().float(),)),
    "median": Case(lambda x: torch.median(x, dim=1), (_distinct(4, 61).float(),)),
    "median_of_even": Case(lambda x: torch.median(x, dim=1, keepdim=True), (_distinct(4, 60),)),
}


WITH_NAN = {"median_with_nan": Case(lambda x: torch.median(x, dim=1), (_special(),))}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all({**STABLE, **DISTINCT, **WITH_NAN}, tmp_path_factory.mktemp("sorts"))


@pytest.mark.parametrize("name", sorted({**STABLE, **DISTINCT}))
def test_values_and_indices_equal_torch(results: dict[str, Any], name: str) -> None:
    case = {**STABLE, **DISTINCT}[name]
    for result, inputs in zip(results[name], (case.inputs, *case.more), strict=True):
        assert not isinstance(result, str), result
        values, indices = case.function(*inputs)
        torch.testing.assert_close(result[0], values, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(result[1], indices)


def test_median_of_a_row_with_nan_is_nan(results: dict[str, Any]) -> None:
    (x,) = WITH_NAN["median_with_nan"].inputs
    ((values, indices),) = results["median_with_nan"]
    assert values.isnan().tolist() == [True, False, False, False]
    assert indices[0] == 3
    assert torch.equal(values[1:], torch.median(x[1:], dim=1).values)


def test_rows_too_long_for_one_program_are_not_taken() -> None:
    assert not accepted(Case(lambda x: torch.sort(x), (torch.zeros(1, 10000),)))
    assert not accepted(Case(lambda x: torch.topk(x, 5000), (torch.zeros(1, 10000),)))
