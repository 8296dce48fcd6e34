"""Normalisation layers, normalisation by hand, and softmax."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import LayerArgument, Op, Plan, Value, Wanted

Arg = LayerArgument


def _eps(builder: Builder, usual: float = 1e-5) -> float:
    return builder.rng.choice((usual, usual, usual, 1e-6, 1e-3, 1e-12))


def _optional(builder: Builder, usual: float = 1e-5) -> tuple[tuple[LayerArgument, ...], str]:
    """`eps` is written when it is not the usual one."""
    eps = _eps(builder, usual)
    return ((), "") if eps == usual else ((Arg(eps, "eps", "eps"),), f", eps={eps!r}")


def _affine(size: int) -> tuple[Wanted, ...]:
    return Wanted("weight", (size,), "pos"), Wanted("bias", (size,), "real", 0.2)


def _layer_norm(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank or x.shape[-1] < 2:
        return None
    axes = 1 if x.rank < 3 or builder.rng.random() < 0.7 else builder.rng.randint(2, min(3, x.rank - 1))
    shape = x.shape[-axes:]
    layer_eps, eps = _optional(builder)
    argument = Arg(shape[0] if axes == 1 else shape, "normalized_shape")
    weights = (Wanted("weight", shape, "pos"), Wanted("bias", shape, "real", 0.2))
    return Plan(x.shape, {"shape": repr(shape), "eps": eps}, weights, (argument, *layer_eps))


def _rms_norm(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank or x.shape[-1] < 2:
        return None
    eps = _eps(builder, 1e-6)
    arguments = (Arg(x.shape[-1], "dim"), Arg(eps, "eps", "eps"))
    return Plan(x.shape, {"shape": repr(x.shape[-1:]), "eps": eps}, (Wanted("weight", x.shape[-1:], "pos"),), arguments)


def _batch_norm(rank: int) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        if x.rank != rank + 2 and not (rank == 1 and x.rank == 2):
            return None
        if x.elements // x.shape[1] < 4:
            return None
        layer_eps, _ = _optional(builder)
        return Plan(x.shape, layer=(Arg(x.shape[1], "num_features"), *layer_eps))

    return rule


def _batch_statistics(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """`F.batch_norm` with the batch's own statistics or given ones."""
    x = operands[0]
    if x.rank < 2 or x.elements // x.shape[1] < 4:
        return None
    channels = (x.shape[1],)
    if op.name == "batch_norm_eval":
        # Statistics are no parameters: they come as inputs.
        mean = builder.input(channels, dtype=x.dtype, role="running_mean")
        variance = builder.input(channels, domain="pos", dtype=x.dtype, role="running_var")
        return Plan(x.shape, {"y": mean, "z": variance}, _affine(x.shape[1]), None)
    return Plan(x.shape, {}, _affine(x.shape[1]), None)


def _instance_norm(rank: int) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        if x.rank != rank + 2 or x.elements // (x.shape[0] * x.shape[1]) < 4:
            return None
        affine = builder.rng.random() < 0.4
        arguments = (Arg(x.shape[1], "num_features"), *((Arg(True, "affine", "affine"),) if affine else ()))
        return Plan(x.shape, layer=arguments)

    return rule


def _group_norm(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or x.elements < 8 * x.shape[0]:
        return None
    channels = x.shape[1]
    fits = [groups for groups in (1, 2, 3, 4, 8, 16, 32) if channels % groups == 0 and x.elements // (x.shape[0] * groups) > 3]  # fmt: skip
    if not fits:
        return None
    groups = builder.rng.choice(fits)
    layer_eps, eps = _optional(builder)
    arguments = (Arg(groups, "num_groups"), Arg(channels, "num_channels"), *layer_eps)
    return Plan(x.shape, {"groups": groups, "eps": eps}, _affine(channels), arguments)


def _axis(least: int = 2) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x = operands[0]
        axes = [axis for axis in range(x.rank) if x.shape[axis] >= least]
        if not axes:
            return None
        axis = builder.fixed.get("dim")
        if axis is None:
            axis = x.rank - 1 if x.shape[-1] >= least and builder.rng.random() < 0.6 else builder.rng.choice(axes)
        dim = axis - x.rank if axis >= 0 and builder.rng.random() < 0.5 else axis
        return Plan(x.shape, {"dim": dim}, layer=(Arg(dim, "dim", "dim"),))

    return rule


def _local_response(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 3 or x.shape[1] < 2:
        return None
    size = builder.rng.choice((2, 3, 5))
    return Plan(x.shape, {"size": size}, layer=(Arg(size, "size"),))


def _scaled(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Written out by hand, over the last axis or over channels."""
    x = operands[0]
    channelwise = op.name.endswith("channels")
    if x.rank < (3 if channelwise else 1) or x.shape[1 if channelwise else -1] < 2:
        return None
    return Plan(x.shape, {"eps": builder.rng.choice(("1e-5", "1e-6", "1e-8"))})


def _four(b: float) -> float:
    return 6.0


def _one(b: float) -> float:
    return 1.0


def _softmax(name: str, layer: str, **more: Any) -> Op:
    spellings = (f"F.{name}({{0}}, dim={{dim}})",) + (() if name == "softmin" else (f"torch.{name}({{0}}, dim={{dim}})", f"{{0}}.{name}(dim={{dim}})"))  # fmt: skip
    return Op(name, "softmax", _axis(), spellings, layer, **more)


OPS = (
    Op("layer_norm", "norm", _layer_norm, ("F.layer_norm({0}, {shape}{eps})", "F.layer_norm({0}, {shape}, {w}{eps})"), "nn.LayerNorm", bound=_four, noun="normed"),
    Op("rms_norm", "norm", _rms_norm, ("F.rms_norm({0}, {shape}, {w}, {eps})",), "nn.RMSNorm", bound=_four, noun="normed"),
    Op("group_norm", "norm", _group_norm, ("F.group_norm({0}, {groups}, {w}{eps})", "F.group_norm({0}, {groups}{eps})"), "nn.GroupNorm", bound=_four, noun="normed"),
    *(Op(f"batch_norm{r}d", "norm", _batch_norm(r), (), f"nn.BatchNorm{r}d", bound=_four, noun="normed") for r in (1, 2, 3)),
    *(Op(f"instance_norm{r}d", "norm", _instance_norm(r), ("F.instance_norm({0})",), f"nn.InstanceNorm{r}d", bound=_four, noun="normed", rarity=2) for r in (1, 2, 3)),
    Op("batch_norm_train", "norm", _batch_statistics, ("F.batch_norm({0}, None, None, {w}, training=True)",), bound=_four, rarity=2, noun="normed"),
    Op("batch_norm_eval", "norm", _batch_statistics, ("F.batch_norm({0}, {y}, {z}, {w})",), bound=_four, rarity=2, noun="normed"),
    Op("local_response_norm", "norm", _local_response, ("F.local_response_norm({0}, {size})",), "nn.LocalResponseNorm", rarity=3, half=False),
    Op("normalize", "norm", _axis(), ("F.normalize({0}, dim={dim})", "F.normalize({0}, p=2, dim={dim})", "{0} / {0}.norm(dim={dim}, keepdim=True).clamp(min=1e-6)"), gives="sym", bound=_one, rarity=2, noun="unit"),
    Op("normalize_one", "norm", _axis(), ("F.normalize({0}, p=1.0, dim={dim})", "{0} / {0}.abs().sum(dim={dim}, keepdim=True)"), gives="sym", bound=_one, rarity=2),
    Op("rms_by_hand", "norm", _scaled, ("{0} * torch.rsqrt({0}.pow(2).mean(-1, keepdim=True) + {eps})", "{0} / torch.sqrt(torch.mean({0} ** 2, dim=-1, keepdim=True) + {eps})"), bound=_four, noun="normed"),
    Op("rms_channels", "norm", _scaled, ("{0} / torch.sqrt(torch.mean({0} ** 2, dim=1, keepdim=True) + {eps})",), bound=_four, noun="normed", rarity=2),
    Op("standardise", "norm", _scaled, ("({0} - {0}.mean(dim=-1, keepdim=True)) / ({0}.std(dim=-1, keepdim=True) + {eps})", "({0} - torch.mean({0}, -1, keepdim=True)) * torch.rsqrt(torch.var({0}, -1, unbiased=False, keepdim=True) + {eps})"), bound=_four, noun="normed"),
    Op("centre", "norm", _scaled, ("{0} - {0}.mean(dim=-1, keepdim=True)", "{0} - torch.mean({0}, dim=-1, keepdim=True)"), noun="centred"),
    Op("frobenius", "norm", _scaled, ("{0} / torch.norm({0})", "{0} / torch.norm({0}, p='fro')"), bound=_one, rarity=2),
    Op("min_max_scale", "norm", _scaled, ("({0} - {0}.amin(dim=-1, keepdim=True)) / ({0}.amax(dim=-1, keepdim=True) - {0}.amin(dim=-1, keepdim=True) + 1e-3)",), gives="unit", bound=_one, rarity=2),
    _softmax("softmax", "nn.Softmax", gives="prob", bound=_one, noun="weights"),
    _softmax("log_softmax", "nn.LogSoftmax", bound=lambda b: 2 * b + 4),
    _softmax("softmin", "nn.Softmin", gives="prob", bound=_one, rarity=3),
    Op("softmax_by_hand", "softmax", _axis(), ("torch.exp({0} - {0}.amax(dim={dim}, keepdim=True)) / torch.exp({0} - {0}.amax(dim={dim}, keepdim=True)).sum(dim={dim}, keepdim=True)",), gives="prob", bound=_one, rarity=2),
)  # fmt: skip
NORMS = ("layer_norm", "rms_norm", "group_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d", "instance_norm1d", "instance_norm2d", "instance_norm3d", "rms_by_hand", "standardise")  # fmt: skip
