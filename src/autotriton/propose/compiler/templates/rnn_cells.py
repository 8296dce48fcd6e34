"""One time step of each kind of recurrent cell, element by element."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """Names of the gates in the order of torch's weights, and what they make of the old state."""

    gates: tuple[str, ...]
    formula: str
    step: tuple[str, ...]
    """Statements that set `h_new` (and `c`) from the gates' sums."""
    has_memory: bool = False
    """There is a second state `c`, which never leaves the program that owns it."""
    apart: tuple[str, ...] = ()
    """Gates whose share of the hidden state, `{gate}_h`, stays apart from that of the input, `{gate}_x`."""


LSTM = Cell(
    gates=("i", "f", "g", "o"),
    formula="c = sigmoid(f) * c + sigmoid(i) * tanh(g); h = sigmoid(o) * tanh(c)",
    step=(
        "c = tl.sigmoid(f) * c + tl.sigmoid(i) * libdevice.tanh(g)",
        "h_new = tl.sigmoid(o) * libdevice.tanh(c)",
    ),
    has_memory=True,
)
GRU = Cell(
    gates=("r", "z", "n"),
    formula="h = (1 - z) * tanh(n_x + r * n_h) + z * h, r and z through sigmoid",
    step=(
        "r, z = tl.sigmoid(r), tl.sigmoid(z)",
        "n = libdevice.tanh(n_x + r * n_h)",
        "h_new = (1.0 - z) * n + z * h_old",
    ),
    apart=("n",),
)
TANH = Cell(gates=("a",), formula="h = tanh(a)", step=("h_new = libdevice.tanh(a)",))
RELU = Cell(gates=("a",), formula="h = relu(a)", step=("h_new = tl.where(a < 0.0, 0.0, a)",))
