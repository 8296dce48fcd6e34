"""Recurrent networks: every cell, layers, directions and layouts against torch in double precision."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from further import marked, wanted  # noqa: E402
from single_piece import Case, accepted, piece_of, run_all  # noqa: E402

from autotriton.propose.compiler.templates import rnn  # noqa: E402

pytestmark = pytest.mark.interp


class Network(torch.nn.Module):
    """The network with its states as inputs, so that the graph holds the one operator only."""

    def __init__(self, kind: Any, *args: Any, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = kind(*args, **options)

    def forward(self, x: Any, *states: Any) -> Any:
        output, last = self.network(x, states if len(states) == 2 else states[0])
        return (output, *last) if isinstance(last, tuple) else (output, last)


def _case(
    kind: Any,
    *sizes: int,
    batch: int = 3,
    steps: int = 3,
    grows: bool = False,
    dtype: Any = torch.float32,
    **options: Any,
) -> Case:
    features, hidden, layers = sizes
    network = Network(kind, features, hidden, layers, **options).to(dtype)
    directions = 2 if options.get("bidirectional") else 1
    generator = torch.Generator().manual_seed(1)

    def inputs(batch: int) -> tuple[Any, ...]:
        shape = (batch, steps) if options.get("batch_first") else (steps, batch)
        x = torch.randn(*shape, features, generator=generator).to(dtype)
        count = 2 if kind is torch.nn.LSTM else 1
        states = [torch.randn(layers * directions, batch, hidden, generator=generator).to(dtype) for _ in range(count)]
        return (x, *states)

    return Case(network, inputs(batch), more=(inputs(batch + 16),) if grows else ())


LSTM, GRU, RNN = torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN
CASES = {
    "lstm_one_layer": _case(LSTM, 7, 20, 1),
    "lstm_wave": _case(LSTM, 7, 20, 3, grows=True),
    "lstm_batch_first": _case(LSTM, 7, 20, 2, batch_first=True),
    "lstm_both_ways": _case(LSTM, 7, 20, 2, bidirectional=True, batch_first=True, grows=True),
    "lstm_without_bias": _case(LSTM, 7, 20, 2, bias=False),
    "lstm_half": _case(LSTM, 7, 20, 2, dtype=torch.float16),
    "lstm_brain": _case(LSTM, 7, 20, 1, dtype=torch.bfloat16, bidirectional=True),
    "gru_one_layer": _case(GRU, 7, 20, 1, batch_first=True, steps=6),
    "gru_wave": _case(GRU, 7, 20, 3, grows=True),
    "gru_both_ways": _case(GRU, 7, 20, 2, bidirectional=True),
    "gru_without_bias": _case(GRU, 7, 20, 2, bias=False),
    "rnn_tanh": _case(RNN, 7, 20, 2),
    "rnn_relu": _case(RNN, 7, 20, 2, nonlinearity="relu", batch_first=True),
    "rnn_both_ways": _case(RNN, 7, 20, 1, bidirectional=True),
}
LARGE = {"lstm_streamed": _case(LSTM, 7, 40, 1), "gru_streamed": _case(GRU, 7, 40, 2, bidirectional=True)}


# Every cell has one with several layers, both ways, other layouts and types without these.
MORE = frozenset(("lstm_batch_first", "lstm_without_bias", "gru_both_ways", "rnn_both_ways"))


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(CASES, MORE, request), tmp_path_factory.mktemp("networks"))


def _check(case: Case, results: list[Any]) -> None:
    wide = copy.deepcopy(case.function).double()
    for result, inputs in zip(results, (case.inputs, *case.more), strict=True):
        assert not isinstance(result, str), result
        dtype = inputs[0].dtype
        error = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}.get(dtype, 1e-6)
        with torch.no_grad():
            expected, plain = wide(*(x.double() for x in inputs)), case.function(*inputs)
        for got, want, same in zip(result, expected, plain, strict=True):
            assert got.dtype == dtype
            assert got.stride() == same.stride()
            torch.testing.assert_close(got.double(), want, rtol=error, atol=error)


@pytest.mark.parametrize("name", marked(sorted(CASES), MORE))
def test_network_equals_torch_in_double(results: dict[str, Any], name: str) -> None:
    _check(CASES[name], results[name])


def test_weights_too_large_for_the_chip_are_streamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rnn, "_ON_CHIP", 1 << 10)
    assert "for start in range(0, hidden" in piece_of(LARGE["lstm_streamed"], "lstm_streamed")[0].text
    for name, result in run_all(LARGE, tmp_path).items():
        _check(LARGE[name], result)


def test_programs_wait_for_each_other_only_where_all_of_them_run_at_once() -> None:
    """A wait for programs that have not started would never end; the interpreter runs them one after another."""
    text = piece_of(CASES["gru_wave"], "gru_wave")[0].text
    assert "room = programs_at_once(x) // (across * down)" in text
    assert "per_launch = ticks if room else 1" in text
    assert "if tick < last_tick - 1:" in text


def test_projected_double_and_dropped_out_networks_are_not_taken() -> None:
    assert not accepted(_case(LSTM, 7, 20, 1, dtype=torch.float64))
    projected = Network(LSTM, 7, 20, 1, proj_size=5)
    assert not accepted(Case(projected, (torch.randn(5, 3, 7), torch.randn(1, 3, 5), torch.randn(1, 3, 20))))
