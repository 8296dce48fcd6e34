"""Recurrent networks: LSTM, GRU and the plain RNN, over layers and directions.

The projection of the inputs is one matrix product for all time steps. The recurrence is one kernel whose programs own
a tile of hidden units each, with their rows of the weights kept on the chip, and meet after every step. Layers of
a one-way network run as a wave: while layer 0 computes step t, layer 1 computes step t - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of
from autotriton.propose.compiler.templates.rnn_cells import GRU, LSTM, RELU, TANH, Cell
from autotriton.propose.compiler.templates.rnn_kernel import Form
from autotriton.propose.compiler.templates.rnn_text import HELPERS, layers_text, wave_text

aten = torch.ops.aten

_ON_CHIP = 160 << 10
"""Bytes of weights one program may keep; the rest of a multiprocessor's 227 KB is for states and exchange."""
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Network:
    """What the operator was asked for."""

    x: torch.fx.Node
    states: tuple[torch.fx.Node, ...]
    weights: tuple[torch.fx.Node, ...]
    has_bias: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def hidden(self) -> int:
        return shape_of(self.states[0])[-1]

    @property
    def batch(self) -> int:
        return shape_of(self.x)[0 if self.batch_first else 1]

    @property
    def dtype(self) -> torch.dtype:
        return self.x.meta["val"].dtype  # type: ignore[no-any-return]


def network_of(node: torch.fx.Node) -> Network:
    """lstm.input(x, states, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first)."""
    x, states, weights, *rest = node.args
    options: Any = rest
    many: Any = states if isinstance(states, list | tuple) else (states,)
    return Network(x, tuple(many), tuple(weights), *options)  # type: ignore[arg-type]


class Recurrent:
    """The operators of one kind of cell; each returns (output, h_n) or (output, h_n, c_n)."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def accepts(self, node: torch.fx.Node) -> bool:
        network = network_of(node)
        types = {part.meta["val"].dtype for part in (network.x, *network.states, *network.weights)}
        if len(types) != 1 or network.dtype not in _TYPES or (network.train and network.dropout > 0):
            return False
        # A projected LSTM (proj_size) has a fifth weight per layer and an h narrower than its c.
        per_layer = (4 if network.has_bias else 2) * (2 if network.bidirectional else 1)
        whole = len(network.weights) == per_layer * network.layers and network.x.meta["val"].dim() == 3
        return whole and 0 not in shape_of(network.x)

    def sizes(self, node: torch.fx.Node) -> tuple[str, ...]:
        return ("batch", "steps", "width") if network_of(node).batch_first else ("steps", "batch", "width")

    def render(self, site: Site) -> Piece:
        network = network_of(site.node)
        in_wave = self._in_wave(network)
        form = Form(
            name=site.name,
            cell=self.cell,
            has_bias=network.has_bias,
            directions=2 if network.bidirectional else 1,
            batch_first=network.batch_first,
            precision="tf32" if site.tf32 else "bf16x6",
            on_chip=self._bytes(network, 8, in_wave) <= _ON_CHIP,
        )
        return Piece(
            name=site.name,
            text=wave_text(form) if in_wave else layers_text(form),
            operands=(network.x, *network.states, *network.weights),
            settings=self._settings(network, in_wave, form.on_chip),
            helpers=HELPERS,
        )

    def _in_wave(self, network: Network) -> bool:
        """Whether several layers run at once: a wave needs the weights for both of a layer's inputs on the chip."""
        fits = self._bytes(network, 8, in_wave=True) <= _ON_CHIP
        return network.layers > 1 and not network.bidirectional and fits

    def _bytes(self, network: Network, tile: int, in_wave: bool) -> int:
        padded = 1 << max(4, (network.hidden - 1).bit_length())
        return len(self.cell.gates) * tile * padded * network.dtype.itemsize * (2 if in_wave else 1)

    def _settings(self, network: Network, in_wave: bool, on_chip: bool) -> tuple[Setting, ...]:
        """Tiles of batch by hidden units, and over how many groups of warps the hidden state is divided."""
        padded = 1 << max(4, (network.hidden - 1).bit_length())
        found: list[Setting] = []
        for units in (16, 8, 32) if in_wave else (8, 16, 32):
            for rows in (16,) if network.batch <= 16 else (32, 16, 64):
                for split in (8, 16, 4, 2):
                    fits = not on_chip or self._bytes(network, units, in_wave) <= _ON_CHIP
                    if fits and (split * 16 <= padded or split == 2):
                        setting: Setting = {"BLOCK_B": rows, "BLOCK_H": units, "SPLIT": split, "num_warps": split}
                        found.append(setting if on_chip else {**setting, "BLOCK_K": 32})
        return tuple(found[:16])


FAMILIES = {
    aten.lstm.input: Recurrent(LSTM),
    aten.gru.input: Recurrent(GRU),
    aten.rnn_tanh.input: Recurrent(TANH),
    aten.rnn_relu.input: Recurrent(RELU),
}
