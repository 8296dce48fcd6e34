"""Recurrent cells and short recurrent layers."""

from __future__ import annotations

import math
from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value, Wanted

Arg = LayerArgument


def _cell(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Weights of the gates over (batch, features), the state zero."""
    x = operands[0]
    if x.rank != 2:
        return None
    hidden = builder.rng.choice((8, 16, 24, 32)) if builder.scale != "gpu" else builder.rng.choice((128, 256, 512))
    return Plan((x.shape[0], hidden), {"suffix": "[0]" if op.name == "lstm_cell" else ""}, (), (Arg(x.shape[1], "input_size"), Arg(hidden, "hidden_size")), bound=1.0)  # fmt: skip


def _layer(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """(batch, length, features) -> (batch, length, hidden)."""
    x = operands[0]
    longest = 8 if builder.scale != "gpu" else 256
    if x.rank != 3 or x.shape[1] > longest or x.shape[1] < 2:
        return None
    hidden = builder.rng.choice((8, 16)) if builder.scale != "gpu" else builder.rng.choice((64, 128, 256))
    layer = (Arg(x.shape[2], "input_size"), Arg(hidden, "hidden_size"), Arg(True, "batch_first", "batch_first"))
    return Plan((*x.shape[:2], hidden), {"suffix": "[0]"}, (), layer, bound=1.0)


def _step(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """One step by hand: input and state through their weights."""
    x = operands[0]
    if x.rank != 2:
        return None
    hidden = builder.rng.choice((8, 16, 32))
    state = builder.input((x.shape[0], hidden), domain="sym", dtype=x.dtype, role="hidden")
    spread = 1.0 / math.sqrt(x.shape[1])
    ours = builder.weight(Wanted("w_ih", (hidden, x.shape[1]), "real", spread))
    theirs = builder.weight(Wanted("w_hh", (hidden, hidden), "real", 1.0 / math.sqrt(hidden)))
    return Plan((x.shape[0], hidden), {"y": state, "z": ours, "v": theirs}, bound=1.0)


def _op(name: str, rule: Any, layer: str | None, *spellings: str, **more: Any) -> Op:
    return Op(name, "recurrent", rule, spellings, layer, **{"rarity": 2, "noun": "hidden", "gives": "sym", **more})


OPS = (
    _op("rnn_cell", _cell, "nn.RNNCell"),
    _op("gru_cell", _cell, "nn.GRUCell"),
    _op("lstm_cell", _cell, "nn.LSTMCell"),
    _op("rnn", _layer, "nn.RNN", rarity=3),
    _op("gru", _layer, "nn.GRU", rarity=3),
    _op("lstm", _layer, "nn.LSTM", rarity=3),
    _op("rnn_step", _step, None, "torch.tanh(F.linear({0}, {z}) + F.linear({y}, {v}))", "torch.tanh({0} @ {z}.T + {y} @ {v}.T)"),
    _op("gated_step", _step, None, "torch.sigmoid({0} @ {z}.T) * {y} + (1.0 - torch.sigmoid({0} @ {z}.T)) * torch.tanh({y} @ {v}.T)"),
)  # fmt: skip
