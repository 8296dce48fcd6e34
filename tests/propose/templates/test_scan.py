"""Scans: every operation, dimension and type against torch in double precision."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from single_piece import Case, accepted, operator_of, piece_of, run_all  # noqa: E402

from autotriton.propose.compiler.templates.scan_patterns import merge_scans  # noqa: E402

pytestmark = pytest.mark.interp


def _x(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype) if dtype.is_floating_point else (values * 10).to(dtype)


def _special() -> Any:
    x = _x(5, 40)
    x[0, 7], x[1, 3], x[2, 5], x[3, 9], x[4, ::3] = float("nan"), float("inf"), -float("inf"), -0.0, 0.0
    return x


def _exclusive(x: Any) -> Any:
    first = torch.zeros_like(x.select(1, 0).unsqueeze(1))
    return torch.cat((first, torch.cumsum(x.narrow(1, 0, x.size(1) - 1), dim=1)), dim=1)


SUM, PRODUCT, LOGS = torch.cumsum, torch.cumprod, torch.logcumsumexp
CASES = {
    "rows": Case(lambda x: SUM(x, 1), (_x(5, 300),), more=((_x(9, 300),), (_x(2, 5000),))),
    "columns": Case(lambda x: SUM(x, 0), (_x(130, 7),)),
    "middle": Case(lambda x: SUM(x, -2), (_x(3, 70, 5),)),
    "vector": Case(lambda x: SUM(x, 0), (_x(77),)),
    "four_dimensions": Case(lambda x: SUM(x, 1), (_x(2, 19, 3, 4),)),
    "strided": Case(lambda x: SUM(x, 1), (_x(300, 6).t(),)),
    "small_blocks": Case(lambda x: SUM(x, 1), (_x(5, 9000),), setting=4),
    "half": Case(lambda x: SUM(x, 1), (_x(4, 200, dtype=torch.float16),)),
    "brain": Case(lambda x: SUM(x, 1), (_x(4, 200, dtype=torch.bfloat16),)),
    "double": Case(lambda x: SUM(x, 1), (_x(4, 200, dtype=torch.float64),)),
    "integers": Case(lambda x: SUM(x, 1), (_x(4, 200, dtype=torch.int32),)),
    "bools": Case(lambda x: SUM(x, 1), (_x(4, 200) > 0,)),
    "wider": Case(lambda x: SUM(x, 1, dtype=torch.float64), (_x(4, 200),)),
    "narrower": Case(lambda x: SUM(x, 1, dtype=torch.float16), (_x(4, 50),)),
    "product": Case(lambda x: PRODUCT(x, 1), (_x(4, 200) * 0.1 + 1,), more=((_x(3, 5000) * 0.01 + 1,),)),
    "product_integers": Case(lambda x: PRODUCT(x, 0), (_x(6, 5, dtype=torch.int64),)),
    "logs": Case(lambda x: LOGS(x, 1), (_x(3, 60) * 30,)),
    "special_logs": Case(lambda x: LOGS(x, 1), (_special(),)),
    "special_sums": Case(lambda x: SUM(x, 1), (_special(),)),
    "chunks": Case(lambda x: SUM(x, 1), (_x(2, 40000),)),
    "chunks_of_products": Case(lambda x: PRODUCT(x, 1), (_x(1, 20000) * 0.01 + 1,)),
    "chunks_of_columns": Case(lambda x: SUM(x, 0), (_x(16400, 2),)),
    "reverse": Case(lambda x: SUM(x.flip(1), 1).flip(1), (_x(5, 300),), rewrite=merge_scans, more=((_x(3, 5000),),)),
    "reverse_chunks": Case(lambda x: SUM(x.flip(1), 1).flip(1), (_x(2, 40000),), rewrite=merge_scans),
    "exclusive": Case(_exclusive, (_x(5, 300),), rewrite=merge_scans, more=((_x(3, 5000),),)),
    "masked": Case(lambda x, m: SUM(x * m, 1), (_x(5, 300), _x(5, 300, seed=1) > 0), rewrite=merge_scans),
}
EXTREMA = {
    "largest": Case(lambda x: torch.cummax(x, 1), (_special(),)),
    "smallest": Case(lambda x: torch.cummin(x, 1), (_special(),)),
    "largest_columns": Case(lambda x: torch.cummax(x, 0), (_x(40, 3, dtype=torch.bfloat16),)),
    "smallest_integers": Case(lambda x: torch.cummin(x, 1), (_x(3, 50, dtype=torch.int32),)),
    "largest_integers": Case(lambda x: torch.cummax(x, 1), (torch.tensor([[-(2**31), -(2**31), 5, 5, -1]]).int(),)),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all({**CASES, **EXTREMA}, tmp_path_factory.mktemp("scans"))


@pytest.mark.parametrize("name", sorted(CASES))
def test_scan_equals_torch_in_double(results: dict[str, Any], name: str) -> None:
    for result, inputs in zip(results[name], (CASES[name].inputs, *CASES[name].more), strict=True):
        assert not isinstance(result, str), result
        plain = CASES[name].function(*inputs)
        wide = CASES[name].function(*(x.double() if x.is_floating_point() else x for x in inputs))
        assert result.dtype == plain.dtype
        error = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float64: 1e-12}.get(plain.dtype, 2e-6)
        if not plain.dtype.is_floating_point:
            assert torch.equal(result, plain)
        else:
            largest = wide.abs().nan_to_num(0, 0, 0).max().item()
            torch.testing.assert_close(result.double(), wide.double(), rtol=error, atol=error * largest, equal_nan=True)


@pytest.mark.parametrize("name", sorted(EXTREMA))
def test_running_extremum_and_its_index_equal_torch(results: dict[str, Any], name: str) -> None:
    values, indices = EXTREMA[name].function(*EXTREMA[name].inputs)
    (result,) = results[name]
    assert not isinstance(result, str), result
    assert result[0].dtype == values.dtype
    torch.testing.assert_close(result[0], values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(result[1], indices)


def test_few_long_rows_are_cut_into_chunks() -> None:
    assert "_totals_kernel" in piece_of(CASES["chunks"], "chunks")[0].text
    assert "_totals_kernel" not in piece_of(CASES["rows"], "rows")[0].text


@pytest.mark.parametrize(
    ("name", "operator"),
    [("reverse", "reverse_cumsum"), ("exclusive", "exclusive_cumsum"), ("masked", "masked_cumsum")],
)
def test_merged_graph_still_computes_the_same(name: str, operator: str) -> None:
    node, graph = operator_of(CASES[name])
    assert str(node.target) == operator
    (result,) = torch.fx.GraphModule(torch.nn.Module(), graph)(*CASES[name].inputs)
    assert torch.equal(result, CASES[name].function(*CASES[name].inputs))


def test_64_bit_extrema_are_not_taken() -> None:
    assert not accepted(Case(lambda x: torch.cummax(x, 0), (_x(4, 4, dtype=torch.float64),)))


def test_sum_whose_flipped_result_is_also_needed_unflipped_stays_apart() -> None:
    def both(x: Any) -> Any:
        total = torch.cumsum(x.flip(1), 1)
        return total.flip(1), total

    node, _ = operator_of(Case(both, (_x(3, 4),), rewrite=merge_scans))
    assert "cumsum" in str(node.target)
    assert "reverse" not in str(node.target)


def test_patterns_over_different_dimensions_stay_apart() -> None:
    node, _ = operator_of(Case(lambda x: torch.cumsum(x.flip(0), 1).flip(0), (_x(3, 4),), rewrite=merge_scans))
    assert "reverse" not in str(node.target)
