"""Shapes changed and elements moved: views, permutations, concatenation, padding, repetition."""

from __future__ import annotations

from typing import Any

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op, Plan, Value, Wanted


def _flatten(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 3:
        return None
    rest = x.elements // x.shape[0]
    return Plan((x.shape[0], rest), {"n": x.shape[0], "m": rest})


def _swap(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or (op.name == "t" and x.rank != 2):
        return None
    one, two = (x.rank - 2, x.rank - 1) if builder.rng.random() < 0.6 else sorted(builder.rng.sample(range(x.rank), 2))
    shape = list(x.shape)
    shape[one], shape[two] = shape[two], shape[one]
    return Plan(tuple(shape), {"a": one, "b": two})


def _turned(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Rows and columns of a matrix, or of each matrix, change places."""
    x = operands[0]
    if x.rank < 2:
        return None
    written = ("T", "T", "t()") if x.rank == 2 else ("mT", "transpose(1, 2)" if x.rank == 3 else "transpose(-2, -1)")
    turned = builder.rng.choice((*written, "transpose(-2, -1)"))
    return Plan((*x.shape[:-2], x.shape[-1], x.shape[-2]), {"turned": turned})


def _permute(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 3:
        return None
    order = builder.fixed.get("order")
    if order is None:
        order = list(range(x.rank))
        if x.rank == 4 and builder.rng.random() < 0.6:
            order = [0, 2, 3, 1]
        else:
            builder.rng.shuffle(order)
    if list(order) == list(range(x.rank)):
        return None
    return Plan(tuple(x.shape[axis] for axis in order), {"order": ", ".join(map(str, order))})


def _unsqueeze(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank > 3:
        return None
    dim = builder.rng.randint(0, x.rank)
    return Plan((*x.shape[:dim], 1, *x.shape[dim:]), {"dim": dim})


def _squeeze(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    ones = [axis for axis in range(x.rank) if x.shape[axis] == 1]
    if not ones or x.rank < 2:
        return None
    dim = ones[-1]
    return Plan(x.shape[:dim] + x.shape[dim + 1 :], {"dim": dim})


def _split_axis(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """The last axis as (groups, rest)."""
    x = operands[0]
    if not x.rank or x.rank > 4:
        return None
    fits = [n for n in (2, 3, 4, 8) if x.shape[-1] % n == 0 and x.shape[-1] > n]
    if not fits:
        return None
    n = builder.rng.choice(fits)
    shape = (*x.shape[:-1], n, x.shape[-1] // n)
    return Plan(shape, {"n": n, "shape": ", ".join(map(str, shape)), "head": ", ".join(map(str, x.shape[:-1]))})


def _chunk(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    parts = int(builder.fixed.get("parts", 2))
    axis = int(builder.fixed.get("dim", x.rank - 1)) % max(x.rank, 1)
    if not x.rank or x.shape[axis] % parts:
        return None
    size = x.shape[axis] // parts
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    dim = axis - x.rank if axis == x.rank - 1 else axis
    return Plan(shape, {"parts": parts, "size": size, "dim": dim})


def _slice(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """Part of the last axis. Rarely written over computed values: the rest would be wasted."""
    x = operands[0]
    if not x.rank or x.shape[-1] < 4 or not x.exact:
        return None
    size = x.shape[-1]
    text, length = builder.rng.choice((("::2", (size + 1) // 2), ("1::2", size // 2)))
    if op.name == "narrow":
        return None
    return Plan((*x.shape[:-1], length), {"slice": text})


def _pad(mode: str) -> Any:
    def rule(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
        x, rng = operands[0], builder.rng
        axes = 1 if x.rank < 4 or rng.random() < 0.3 else 2
        if x.rank < 2 or (mode != "constant" and x.rank != axes + 2):
            return None
        pads = [rng.randint(0, 2) for _ in range(2 * axes)]
        if not any(pads):
            pads[0] = 1
        if mode != "constant" and any(pads[2 * i] >= x.shape[-1 - i] or pads[2 * i + 1] >= x.shape[-1 - i] for i in range(axes)):  # fmt: skip
            return None
        shape = list(x.shape)
        for place in range(axes):
            shape[-1 - place] += pads[2 * place] + pads[2 * place + 1]
        value = rng.choice((0.0, 0.0, 1.0, -0.5))
        return Plan(tuple(shape), {"pads": tuple(pads), "value": f", value={value}" if value else ""})

    return rule


def _roll(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    axes = [axis for axis in range(x.rank) if x.shape[axis] > 1]
    if not axes or (op.name == "rot90" and x.rank < 2):
        return None
    axis = builder.rng.choice(axes)
    if op.name == "rot90":
        return Plan((*x.shape[:-2], x.shape[-1], x.shape[-2]), {})
    return Plan(x.shape, {"dim": axis, "shift": builder.rng.choice((1, 2, -1))})


def _repeat(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank or x.rank > 3:
        return None
    count = builder.rng.choice((2, 3))
    if op.name == "repeat_interleave":
        return Plan((*x.shape[:-1], x.shape[-1] * count), {"n": count})
    counts = [1] * x.rank
    counts[builder.rng.randrange(x.rank)] = count
    shape = tuple(size * n for size, n in zip(x.shape, counts, strict=True))
    return Plan(shape, {"counts": ", ".join(map(str, counts)), "tuple": tuple(counts)})


def _expand(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    ones = [axis for axis in range(x.rank) if x.shape[axis] == 1]
    if not ones:
        return None
    axis, count = ones[0], builder.rng.choice((2, 3, 4))
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    signs = ", ".join(str(count) if place == axis else "-1" for place in range(x.rank))
    return Plan(shape, {"signs": signs, "shape": shape})


def _cat(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if not x.rank:
        return None
    stacked = op.name == "stack"
    y = operands[1] if len(operands) > 1 else builder.input(x.shape, dtype=x.dtype, domain=x.domain, role="y")
    axis = builder.fixed.get("dim", builder.rng.choice((x.rank - 1, min(1, x.rank - 1), 0)))
    if y.dtype != x.dtype or (stacked and y.shape != x.shape) or y.rank != x.rank:
        return None
    if any(a != b for place, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if place != axis):
        return None
    dim = axis - x.rank if axis == x.rank - 1 and not stacked else axis
    if stacked:
        return Plan((*x.shape[:axis], 2, *x.shape[axis:]), {"y": y, "dim": axis})
    shape = (*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :])
    return Plan(shape, {"y": y, "dim": dim}, bound=max(x.bound, y.bound))


def _diagonal(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if op.name == "diag_embed":
        return Plan((*x.shape, x.shape[-1])) if 1 <= x.rank < 3 and x.shape[-1] <= 48 else None
    if x.rank < 2 or x.shape[-1] != x.shape[-2] or not x.exact:
        return None
    return Plan((*x.shape[:-2], x.shape[-1])) if op.name == "diagonal" else None


def _windows(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    size, step = builder.rng.choice(((2, 2), (3, 1), (4, 2)))
    if not x.rank or x.rank > 3 or x.shape[-1] < size:
        return None
    return Plan((*x.shape[:-1], (x.shape[-1] - size) // step + 1, size), {"size": size, "step": step})


def _token(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """A learnt token in front of a sequence."""
    x = operands[0]
    if x.rank != 3:
        return None
    first = builder.weight(Wanted("cls_token", (1, 1, x.shape[2])))
    return Plan((x.shape[0], x.shape[1] + 1, x.shape[2]), {"y": first})


def _op(name: str, rule: Any, *spellings: str, **more: Any) -> Op:
    return Op(name, "view", rule, spellings, **{"takes": "any", "exact": True, **more})


OPS = (
    _op("flatten", _flatten, "torch.flatten({0}, 1)", "{0}.flatten(1)", "{0}.reshape({n}, -1)", "{0}.reshape({0}.size(0), -1)", "{0}.flatten(start_dim=1)", noun="flat"),
    _op("transpose", _swap, "{0}.transpose({a}, {b})", "torch.transpose({0}, {a}, {b})", "{0}.transpose({a}, {b}).contiguous()"),
    _op("swapaxes", _swap, "torch.swapaxes({0}, {a}, {b})", "{0}.swapdims({a}, {b})", rarity=3),
    _op("turn", _turned, "{0}.{turned}", named=True),
    _op("permute", _permute, "{0}.permute({order})", "torch.permute({0}, ({order}))", "{0}.permute({order}).contiguous()"),
    _op("unsqueeze", _unsqueeze, "{0}.unsqueeze({dim})", "torch.unsqueeze({0}, {dim})"),
    _op("squeeze", _squeeze, "{0}.squeeze({dim})", "torch.squeeze({0}, {dim})"),
    _op("split_last", _split_axis, "{0}.view({shape})", "{0}.reshape({shape})", "{0}.unflatten(-1, ({n}, -1))", "torch.reshape({0}, ({shape}))", "{0}.reshape(*{0}.shape[:-1], {n}, -1)"),
    _op("chunk", _chunk, "{0}.chunk({parts}, dim={dim})", "torch.chunk({0}, {parts}, dim={dim})", "torch.split({0}, {size}, dim={dim})", "{0}.split({size}, dim={dim})"),
    _op("slice_step", _slice, "{0}[..., {slice}]", rarity=2),
    _op("pad_constant", _pad("constant"), "F.pad({0}, {pads}{value})", "F.pad({0}, {pads}, mode='constant'{value})", rarity=2, noun="padded", takes="real"),
    _op("pad_reflect", _pad("reflect"), "F.pad({0}, {pads}, mode='reflect')", rarity=2, noun="padded", takes="real"),
    _op("pad_replicate", _pad("replicate"), "F.pad({0}, {pads}, mode='replicate')", rarity=3, noun="padded", takes="real"),
    _op("pad_circular", _pad("circular"), "F.pad({0}, {pads}, mode='circular')", rarity=3, noun="padded", takes="real"),
    _op("roll", _roll, "torch.roll({0}, {shift}, dims={dim})", "torch.roll({0}, shifts={shift}, dims={dim})", "{0}.roll({shift}, {dim})", rarity=2),
    _op("flip", _roll, "torch.flip({0}, dims=[{dim}])", "{0}.flip({dim})", "torch.flip({0}, [{dim}])", rarity=2),
    _op("rot90", _roll, "torch.rot90({0}, 1, (-2, -1))", rarity=3),
    _op("repeat", _repeat, "{0}.repeat({counts})", "torch.tile({0}, {tuple})", rarity=2),
    _op("repeat_interleave", _repeat, "torch.repeat_interleave({0}, {n}, dim=-1)", "{0}.repeat_interleave({n}, dim=-1)", rarity=2),
    _op("expand", _expand, "{0}.expand({signs})", "torch.broadcast_to({0}, {shape})", "{0}.expand({signs}).contiguous()", rarity=2),
    _op("cat", _cat, "torch.cat([{0}, {y}], dim={dim})", "torch.cat(({0}, {y}), dim={dim})", "torch.concat([{0}, {y}], dim={dim})", arity=2, noun="joined"),
    _op("stack", _cat, "torch.stack([{0}, {y}], dim={dim})", "torch.stack(({0}, {y}), {dim})", rarity=2, arity=2, noun="stacked"),
    _op("diag_embed", _diagonal, "torch.diag_embed({0})", rarity=3, takes="real"),
    _op("windows", _windows, "{0}.unfold(-1, {size}, {step})", rarity=3),
    _op("prepend_token", _token, "torch.cat([{y}.expand({0}.shape[0], -1, -1), {0}], dim=1)", rarity=2, takes="real"),
    _op("contiguous", lambda b, op, xs: Plan(xs[0].shape), "{0}.contiguous()", "{0}.clone()", rarity=3),
)  # fmt: skip
