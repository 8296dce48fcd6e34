"""Scattering: every operator in gather form and from the indices' side, against torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from single_piece import Case, accepted, piece_of, run_all  # noqa: E402

from autotriton.propose.compiler.templates import scatter  # noqa: E402

pytestmark = pytest.mark.interp


def _x(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 4
    return values.to(dtype)


def _at(limit: int, *shape: int) -> Any:
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(3))


def _reduce(how: str, with_x: bool) -> Any:
    return lambda x, i, s: x.scatter_reduce(1, i, s, how, include_self=with_x)


def _put(x: Any, i: Any, s: Any) -> Any:
    return torch.index_put(x, (i,), s)


ROWS = (_x(5, 20), _at(20, 4, 9), _x(6, 11, seed=1))
ONCE = (_x(5, 20), torch.stack([torch.randperm(20)[:9] for _ in range(4)]), _x(6, 11, seed=1))
LINES = (_x(7, 6), _at(7, 9), _x(9, 6, seed=1))
CASES = {
    "write": Case(lambda x, i, s: x.scatter(1, i, s), ONCE),
    "write_number": Case(lambda x, i: x.scatter(1, i, 2.5), ONCE[:2]),
    "write_columns": Case(lambda x, i, s: x.scatter(0, i, s), (_x(20, 5), ONCE[1].t(), ONCE[2].t())),
    "add": Case(lambda x, i, s: x.scatter_add(1, i, s), ROWS, more=((_x(9, 20), *ROWS[1:]),)),
    "add_vector": Case(lambda x, i, s: x.scatter_add(0, i, s), (_x(20), _at(20, 50), _x(50))),
    "add_half": Case(lambda x, i, s: x.scatter_add(1, i, s), (ROWS[0].half(), ROWS[1], ROWS[2].half())),
    "add_integers": Case(lambda x, i, s: x.scatter_add(1, i, s), (ROWS[0].int(), ROWS[1], ROWS[2].int())),
    "mean": Case(_reduce("mean", True), ROWS),
    "mean_alone": Case(_reduce("mean", False), ROWS),
    "sum_alone": Case(_reduce("sum", False), ROWS),
    "largest": Case(_reduce("amax", True), ROWS),
    "smallest_alone": Case(_reduce("amin", False), ROWS),
    "index_add": Case(lambda x, i, s: torch.index_add(x, 0, i, s), LINES),
    "index_add_middle": Case(lambda x, i, s: torch.index_add(x, 1, i, s), (_x(3, 7, 4), _at(7, 9), _x(3, 9, 4))),
    "put": Case(_put, (_x(9, 6), torch.randperm(9)[:5] - 9, _x(5, 6, seed=1))),
    "put_and_add": Case(lambda x, i, s: torch.index_put(x, (i,), s, accumulate=True), LINES),
}
EQUAL = {
    "equal": Case(
        lambda x, i, s: x.scatter(1, i, s),
        (torch.zeros(1, 4), torch.tensor([[1, 1, 2, 1]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]])),
    )
}
CROWDED = {name: CASES[name] for name in ("write", "add", "add_half", "index_add", "put", "put_and_add")}


def _check(cases: dict[str, Case], results: dict[str, Any], name: str) -> None:
    for result, inputs in zip(results[name], (cases[name].inputs, *cases[name].more), strict=True):
        assert not isinstance(result, str), result
        error = 2e-3 if inputs[0].dtype == torch.float16 else 1e-6
        torch.testing.assert_close(result, cases[name].function(*inputs), rtol=error, atol=10 * error)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all({**CASES, **EQUAL}, tmp_path_factory.mktemp("scatters"))


@pytest.mark.parametrize("name", sorted(CASES))
def test_scattering_equals_torch(results: dict[str, Any], name: str) -> None:
    _check(CASES, results, name)


def test_many_indices_are_written_from_their_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "atomic" not in piece_of(CASES["add"], "add")[0].text
    monkeypatch.setattr(scatter, "_MANY_COMPARISONS", 1)
    assert "tl.atomic_add" in piece_of(CASES["add"], "add")[0].text
    results = run_all(CROWDED, tmp_path)
    for name in CROWDED:
        _check(CROWDED, results, name)


def test_last_of_equal_indices_wins(results: dict[str, Any]) -> None:
    (result,) = results["equal"]
    assert result.tolist() == [[0.0, 4.0, 3.0, 0.0]]


def test_products_and_masks_are_not_taken() -> None:
    assert not accepted(Case(_reduce("prod", True), ROWS))
    assert not accepted(Case(_put, (_x(4, 3), torch.tensor([True, False, True, False]), _x(2, 3))))
