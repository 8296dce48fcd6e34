"""Attention over (batch, heads, length, head) tensors, and what goes with it."""

from __future__ import annotations

import math

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.values import Op, Plan, Value


def _operands(builder: Builder, operands: tuple[Value, ...]) -> tuple[Value, Value, Value] | None:
    q = operands[0]
    if q.rank not in (3, 4) or q.shape[-1] < 4 or q.shape[-2] < 2:
        return None
    if len(operands) == 3:
        return q, operands[1], operands[2]
    length = q.shape[-2] if builder.rng.random() < 0.7 else max(2, builder.size("length"))
    shape = (*q.shape[:-2], length, q.shape[-1])
    key = builder.input(shape, dtype=q.dtype, role="k")
    return q, key, builder.input(shape, dtype=q.dtype, role="v")


def _attend(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    found = _operands(builder, operands)
    if found is None:
        return None
    q, k, v = found
    if q.elements * k.shape[-2] * 2 > builder.sizes.work or (op.name.endswith("causal") and k.shape[-2] != q.shape[-2]):
        return None
    arguments: dict[str, object] = {"y": k, "z": v, "scale": f"{1.0 / math.sqrt(q.shape[-1]):.6g}", "d": q.shape[-1], "n": q.shape[-2]}  # fmt: skip
    if op.name.endswith("masked"):
        arguments["mask"] = builder.input((q.shape[-2], k.shape[-2]), domain="attend", dtype="bool", role="mask")
    if op.name.endswith("biased"):
        arguments["mask"] = builder.input((*q.shape[:-2], q.shape[-2], k.shape[-2]), dtype=q.dtype, role="attn_bias")
    return Plan((*q.shape[:-1], v.shape[-1]), arguments, bound=v.bound)


def _scores(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    q = operands[0]
    if q.rank not in (3, 4):
        return None
    k = operands[1] if len(operands) > 1 else builder.input(q.shape, dtype=q.dtype, role="k")
    if q.elements * k.shape[-2] > builder.sizes.work:
        return None
    return Plan((*q.shape[:-1], k.shape[-2]), {"y": k, "d": q.shape[-1]}, bound=8.0)


def _rotary(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 3 or x.shape[-1] % 2:
        return None
    table = x.shape[-2:]
    cosine = builder.input(table, domain="sym", dtype=x.dtype, role="cos")
    sine = builder.input(table, domain="sym", dtype=x.dtype, role="sin")
    return Plan(x.shape, {"y": cosine, "z": sine, "h": x.shape[-1] // 2}, bound=2 * x.bound)


def _alibi(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    x = operands[0]
    if x.rank < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        return None
    return Plan(x.shape, {"n": x.shape[-1]}, bound=x.bound)


def _heads(builder: Builder, op: Op, operands: tuple[Value, ...]) -> Plan | None:
    """(batch, length, features) to (batch, heads, length, head) and back."""
    x = operands[0]
    if op.name == "heads_merge":
        if x.rank != 4:
            return None
        batch, heads, length, head = x.shape
        return Plan((batch, length, heads * head), {"b": batch, "l": length, "e": heads * head})
    heads = int(builder.fixed.get("heads", 2))
    if x.rank != 3 or x.shape[2] % heads:
        return None
    batch, length, features = x.shape
    return Plan(
        (batch, heads, length, features // heads), {"b": batch, "l": length, "h": heads, "d": features // heads}
    )


OPS = (
    Op("heads_split", "view", _heads, ("{0}.view({b}, {l}, {h}, {d}).transpose(1, 2)", "{0}.reshape({b}, {l}, {h}, {d}).permute(0, 2, 1, 3)", "{0}.unflatten(-1, ({h}, {d})).transpose(1, 2)"), exact=True, noun="heads"),
    Op("heads_merge", "view", _heads, ("{0}.transpose(1, 2).reshape({b}, {l}, {e})", "{0}.permute(0, 2, 1, 3).flatten(2)", "{0}.transpose(1, 2).contiguous().view({b}, {l}, {e})"), exact=True, noun="merged"),
    Op("sdpa", "attention", _attend, ("F.scaled_dot_product_attention({0}, {y}, {z})",), arity=3, noun="attended"),
    Op("sdpa_causal", "attention", _attend, ("F.scaled_dot_product_attention({0}, {y}, {z}, is_causal=True)",), arity=3, noun="attended"),
    Op("sdpa_masked", "attention", _attend, ("F.scaled_dot_product_attention({0}, {y}, {z}, attn_mask={mask})",), rarity=2, arity=3, noun="attended"),
    Op("sdpa_biased", "attention", _attend, ("F.scaled_dot_product_attention({0}, {y}, {z}, attn_mask={mask})",
       "torch.softmax({0} @ {y}.transpose(-2, -1) * {scale} + {mask}, dim=-1) @ {z}"), rarity=2, arity=3, noun="attended"),
    Op("attention_by_hand", "attention", _attend, ("torch.matmul(F.softmax(torch.matmul({0}, {y}.transpose(-2, -1)) / math.sqrt({d}), dim=-1), {z})",
       "F.softmax({0} @ {y}.transpose(-2, -1) * {scale}, dim=-1) @ {z}"), arity=3, noun="attended"),
    Op("attention_by_hand_causal", "attention", _attend, ("F.softmax(({0} @ {y}.transpose(-2, -1) * {scale}).masked_fill(torch.triu(torch.ones({n}, {n}, dtype=torch.bool, device={0}.device), diagonal=1), float('-inf')), dim=-1) @ {z}",), arity=3, noun="attended", rarity=2),
    Op("linear_attention", "attention", _attend, ("(F.elu({0}) + 1.0) @ ((F.elu({y}) + 1.0).transpose(-2, -1) @ {z})",), arity=3, noun="attended", rarity=3),
    Op("relu_attention", "attention", _attend, ("F.relu({0} @ {y}.transpose(-2, -1) * {scale}) @ {z}",), arity=3, noun="attended", rarity=3),
    Op("scores", "attention", _scores, ("torch.matmul({0}, {y}.transpose(-2, -1)) / math.sqrt({d})", "({0} @ {y}.mT) * {d} ** -0.5"), noun="scores", arity=2),
    Op("causal_mask", "attention", _alibi, ("{0}.masked_fill(torch.triu(torch.ones({n}, {n}, dtype=torch.bool, device={0}.device), diagonal=1), -1e4)",), noun="scores", rarity=2),
    Op("rotary", "attention", _rotary, ("{0} * {y} + torch.cat([-{0}[..., {h}:], {0}[..., :{h}]], dim=-1) * {z}",), rarity=2, noun="rotated"),
)  # fmt: skip
