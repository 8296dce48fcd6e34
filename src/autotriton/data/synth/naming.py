"""How an author names things: variables, layers, parameters, sizes and constants."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_LAYERS = {
    "Conv": ("conv", "conv"),
    "ConvTranspose": ("conv_transpose", "deconv", "up"),
    "Linear": ("linear", "fc", "proj", "dense"),
    "BatchNorm": ("bn", "norm", "batch_norm"),
    "LayerNorm": ("ln", "norm", "layer_norm"),
    "GroupNorm": ("gn", "norm", "group_norm"),
    "InstanceNorm": ("norm", "instance_norm"),
    "RMSNorm": ("norm", "rms_norm"),
    "MaxPool": ("pool", "max_pool"),
    "AvgPool": ("pool", "avg_pool"),
    "Adaptive": ("pool", "gap"),
    "Embedding": ("embedding", "embed", "tok_emb"),
    "LSTM": ("lstm", "rnn"),
    "GRU": ("gru", "rnn"),
    "RNN": ("rnn",),
    "Softmax": ("softmax",),
    "Upsample": ("upsample", "up"),
}
_INPUTS = {
    "x": ("x", "x", "x", "x", "input", "inputs", "inp", "hidden_states", "data", "tensor"),
    "y": ("y", "other", "b"),
    "k": ("k", "key", "keys"),
    "v": ("v", "value", "values"),
    "q": ("q", "query", "queries"),
    "target": ("target", "targets", "y_true"),
    "labels": ("labels", "target", "targets", "y"),
    "index": ("index", "indices", "idx"),
}
_CONSTANTS = {
    "mul_scalar": ("scale", "scaling_factor", "multiplier", "gain"),
    "add_scalar": ("offset", "add_value", "shift_value"),
    "sub_scalar": ("subtract_value", "offset"),
    "rsub_scalar": ("minuend",),
    "div_scalar": ("divisor", "div_value"),
    "temperature": ("temperature", "tau"),
    "leaky_relu": ("negative_slope",),
}
_ARGUMENTS = {
    "low": ("min_value", "lower"),
    "high": ("max_value", "upper"),
    "exponent": ("exponent", "power"),
    "negative_slope": ("negative_slope", "slope"),
}


@dataclass
class Names:
    """Hands out names, never one twice."""

    rng: random.Random
    taken: set[str] = field(
        default_factory=lambda: {"self", "torch", "nn", "F", "math", "Model", "get_inputs", "get_init_inputs"}
    )

    def fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}{number}" if not wanted[-1].isdigit() else f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def given(self, role: str) -> str:
        return self.fresh(self.rng.choice(_INPUTS.get(role, (role,))))

    def layer(self, constructor: str) -> str:
        kind = constructor.removeprefix("nn.")
        found = [prefix for prefix in _LAYERS if kind.startswith(prefix)]
        choices = _LAYERS[max(found, key=len)] if found else (_snake(kind), "act")
        return self.fresh(self.rng.choice(choices))

    def constant(self, op: str, argument: str) -> str:
        choices = _CONSTANTS.get(op) if argument == "c" else _ARGUMENTS.get(argument)
        return self.fresh(self.rng.choice(choices or (argument if len(argument) > 1 else "factor",)))


_SIZES: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("size",), ("length",), ("n",), ("num_elements",)),
    2: (("batch_size", "in_features"), ("batch_size", "dim"), ("rows", "cols"), ("M", "N"), ("batch_size", "features")),
    3: (
        ("batch_size", "seq_len", "dim"),
        ("batch_size", "seq_length", "hidden_size"),
        ("B", "T", "C"),
        ("batch_size", "num_tokens", "embed_dim"),
    ),
    4: (
        ("batch_size", "channels", "height", "width"),
        ("N", "C", "H", "W"),
        ("batch_size", "in_channels", "height", "width"),
    ),
    5: (("batch_size", "in_channels", "depth", "height", "width"), ("N", "C", "D", "H", "W")),
}


def size_names(rng: random.Random, rank: int, roles: tuple[str, ...]) -> tuple[str, ...]:
    """What the axes of an input are called; `roles` are names of the first layer's sizes, which win."""
    if rank not in _SIZES:
        return ()
    names = list(rng.choice(_SIZES[rank]))
    if "in_channels" in roles and rank >= 3:
        names = [
            "batch_size",
            "in_channels",
            *(("length",), ("height", "width"), ("depth", "height", "width"))[rank - 3],
        ]
    if "in_features" in roles and rank >= 2:
        names[-1] = "in_features"
    return tuple(names)


def _snake(name: str) -> str:
    """`SiLU` is `silu`: capitals say little in these names."""
    return {"LeakyReLU": "leaky_relu", "LogSigmoid": "log_sigmoid", "LogSoftmax": "log_softmax"}.get(name, name.lower())
