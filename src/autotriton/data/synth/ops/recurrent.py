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


def _stack(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Several layers, in one direction or both; further operands are the states they begin with."""
    x, given = operands[0], builder.fixed
    if x.rank != 3:
        return None
    hidden, layers, both, batch_first = given["hidden"], given["layers"], given["both"], given["batch_first"]
    directions, batch = 2 if both else 1, x.shape[0 if batch_first else 1]
    optional = [("batch_first", batch_first, False), ("bidirectional", both, False)]
    layer = (
        *(Arg(x.shape[2], "input_size"), Arg(hidden, "hidden_size")),
        *((Arg(layers, "num_layers"),) if layers > 1 else ()),
        *(Arg(value, key, key) for key, value, usual in optional if value != usual),
    )
    states = {1: "{0}", 2: "{0}, {1}", 3: "{0}, ({1}, {2})"}[len(operands)]
    if given["gives"] == "output":
        return Plan((*x.shape[:2], hidden * directions), {"called": states, "suffix": "[0]"}, (), layer, bound=1.0)
    suffix = {"cell": "[1][1]", "hidden": "[1][0]" if op.name == "lstm_stack" else "[1]"}[given["gives"]]
    return Plan((layers * directions, batch, hidden), {"called": states, "suffix": suffix}, (), layer, bound=4.0)


def _last(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank != 3:
        return None
    if builder.fixed["batch_first"]:
        return Plan((x.shape[0], x.shape[2]), {"at": builder.rng.choice((":, -1, :", ":, -1"))})
    return Plan(x.shape[1:], {"at": "-1"})


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
    _op("rnn_stack", _stack, "nn.RNN", named=True),
    _op("gru_stack", _stack, "nn.GRU", named=True),
    _op("lstm_stack", _stack, "nn.LSTM", named=True),
    _op("last_step", _last, None, "{0}[{at}]", gives=None, exact=True, named=True),
    _op("rnn_step", _step, None, "torch.tanh(F.linear({0}, {z}) + F.linear({y}, {v}))", "torch.tanh({0} @ {z}.T + {y} @ {v}.T)"),
    _op("gated_step", _step, None, "torch.sigmoid({0} @ {z}.T) * {y} + (1.0 - torch.sigmoid({0} @ {z}.T)) * torch.tanh({y} @ {v}.T)"),
)  # fmt: skip
