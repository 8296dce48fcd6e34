"""Reductions in parts: what is kept while going over the columns, how a block is added, and what it comes to.

Every reducer works in one go over a whole row, in a loop over blocks of columns, and in two kernels over parts of it.
States are tiles where adding is element-wise (one reduction at the end), rows where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.fx

from autotriton.propose.compiler.templates.cluster import reduced_dims
from autotriton.propose.compiler.templates.expressions import compute_type, name_of
from autotriton.propose.compiler.templates.names import identifier
from autotriton.propose.compiler.templates.piece import node_at

Lines = list[str]


@dataclass(frozen=True)
class Reducer:
    """Text makers; `s` is the name of the state, `v` the value, `mask` its mask."""

    once: Callable[[str, str, str], Lines]
    """A whole row at once -> statements that set the results."""
    start: Callable[[str, str], Lines]
    """(s, shape of the tile)."""
    step: Callable[[str, str, str], Lines]
    finish: Callable[[str], Lines]
    """Sets the results from the state."""
    parts: Callable[[str], list[str]]
    """Names of the row values a part of a row comes to."""
    part: Callable[[str], Lines]
    """From the state to those values."""
    whole: Callable[[str], Lines]
    """From those values of all parts, loaded as tiles under the same names with mask `part_mask`, to the results."""
    results: Callable[[str], list[str]]
    part_types: tuple[torch.dtype, ...]


def reducer(node: torch.fx.Node, count: str) -> Reducer:
    """The reducer of a node. `count` is how many elements a row has."""
    name = name_of(node)
    source = node_at(node.args[0]).meta["val"].dtype
    value = node.meta["val"]
    kind = (value[0] if isinstance(value, tuple | list) else value).dtype
    if name in ("sum", "mean"):
        return _sum(kind, count if name == "mean" else "")
    if name in ("amax", "max", "amin", "min", "argmax", "argmin"):
        largest = name in ("amax", "max", "argmax")
        if name.startswith("arg") or isinstance(value, tuple | list):
            return _place(source, largest, name.startswith("arg"))
        return _extreme(source, largest, source.is_floating_point and not is_in_softmax(node))
    if name in ("any", "all"):
        return _logical(name == "any")
    if name == "prod":
        return _product(kind)
    if name == "var_mean":
        return _variance(kind, count, correction_of(node))
    raise AssertionError(name)


def is_in_softmax(node: torch.fx.Node) -> bool:
    """NaN comes through a softmax by way of the exponentials, so that its maximum need not look for it."""
    origin = node.meta.get("torch_fn")
    return origin is not None and "softmax" in origin[1]


def correction_of(node: torch.fx.Node) -> float:
    """Of a `var_mean`; 1 unless it says otherwise."""
    if str(node.target) == "aten.var_mean.correction":
        given = node.kwargs.get("correction")
        return 1.0 if given is None else float(given)  # type: ignore[arg-type]
    place = 2 if str(node.target) == "aten.var_mean.dim" else 1
    return float(bool(node.args[place])) if len(node.args) > place else float(bool(node.kwargs.get("unbiased", True)))


def _zero(kind: torch.dtype) -> str:
    return "0.0" if kind.is_floating_point else "0"


def _sum(kind: torch.dtype, count: str) -> Reducer:
    tl, zero = compute_type(kind), _zero(kind)
    share = f" / {count}" if count else ""

    def masked(v: str, mask: str) -> str:
        return f"tl.where({mask}, {v}, {zero}).to({tl})"

    return Reducer(
        once=lambda s, v, mask: [f"{s} = tl.sum({masked(v, mask)}, axis=1, keep_dims=True){share}"],
        start=lambda s, shape: [f"{s}_sum = tl.zeros({shape}, {tl})"],
        step=lambda s, v, mask: [f"{s}_sum += {masked(v, mask)}"],
        finish=lambda s: [f"{s} = tl.sum({s}_sum, axis=1, keep_dims=True){share}"],
        parts=lambda s: [f"{s}_part"],
        part=lambda s: [f"{s}_part = tl.sum({s}_sum, axis=1, keep_dims=True)"],
        whole=lambda s: [f"{s} = tl.sum({s}_part, axis=1, keep_dims=True){share}"],
        results=lambda s: [s],
        part_types=(kind if kind not in (torch.float16, torch.bfloat16) else torch.float32,),
    )


def _limit(kind: torch.dtype, largest: bool) -> str:
    if kind.is_floating_point:
        return 'float("-inf")' if largest else 'float("inf")'
    if kind is torch.bool:
        return "0" if largest else "1"
    info = torch.iinfo(kind)
    return str(info.min if largest else info.max)


def _extreme(kind: torch.dtype, largest: bool, keeps_nan: bool = False) -> Reducer:
    tl, limit = compute_type(kind), _limit(kind, largest)
    pick, reduce = ("tl.maximum", "tl.max") if largest else ("tl.minimum", "tl.min")
    more = ", propagate_nan=tl.PropagateNan.ALL" if keeps_nan else ""

    def masked(v: str, mask: str) -> str:
        return f"tl.where({mask}, {v}, {limit})"

    def over(s: str, v: str) -> Lines:
        if not keeps_nan:
            return [f"{s} = {reduce}({v}, axis=1, keep_dims=True)"]
        best = f"{s}_best"
        return [
            *([f"{best} = {v}"] if v != best else []),
            f"{s}_is_nan = tl.max(({best} != {best}).to(tl.int32), axis=1, keep_dims=True) != 0",
            f'{s} = tl.where({s}_is_nan, float("nan"), {reduce}({best}, axis=1, keep_dims=True))',
        ]

    return Reducer(
        once=lambda s, v, mask: over(s, masked(v, mask)),
        start=lambda s, shape: [f"{s}_best = tl.full({shape}, {limit}, {tl})"],
        step=lambda s, v, mask: [f"{s}_best = {pick}({s}_best, {masked(v, mask)}{more})"],
        finish=lambda s: over(s, f"{s}_best"),
        parts=lambda s: [f"{s}_part"],
        part=lambda s: [*over(s, f"{s}_best"), f"{s}_part = {s}"],
        whole=lambda s: over(s, masked(f"{s}_part", "part_mask")),
        results=lambda s: [s],
        part_types=(kind if kind not in (torch.float16, torch.bfloat16) else torch.float32,),
    )


def _place(kind: torch.dtype, largest: bool, only_place: bool) -> Reducer:
    tl, limit = compute_type(kind), _limit(kind, largest)
    sign, reduce = (">", "tl.max") if largest else ("<", "tl.min")
    far = str(2**31 - 1)

    def settled(s: str, value: str, place: str) -> Lines:
        """The best value, and the first place that has it. NaN is better than everything."""
        lines = [
            f"{s}_value = {reduce}({value}, axis=1, keep_dims=True)",
            f"{s} = tl.min(tl.where({value} == {s}_value, {place}, {far}), axis=1, keep_dims=True)",
        ]
        if kind.is_floating_point:
            lines += [
                f"{s}_nan = tl.min(tl.where({value} != {value}, {place}, {far}), axis=1, keep_dims=True)",
                f'{s}_value = tl.where({s}_nan < {far}, float("nan"), {s}_value)',
                f"{s} = tl.where({s}_nan < {far}, {s}_nan, {s})",
            ]
        return lines

    def once(s: str, v: str, mask: str) -> Lines:
        return [f"{s}_best = tl.where({mask}, {v}, {limit})", *settled(s, f"{s}_best", "col")]

    def step(s: str, v: str, mask: str) -> Lines:
        is_nan = f" | (({v} != {v}) & ({s}_best == {s}_best))" if kind.is_floating_point else ""
        return [
            f"{s}_better = {mask} & (({v} {sign} {s}_best) | ({s}_place == {far}){is_nan})",
            f"{s}_place = tl.where({s}_better, col, {s}_place)",
            f"{s}_best = tl.where({s}_better, {v}, {s}_best)",
        ]

    return Reducer(
        once=once,
        start=lambda s, shape: [
            f"{s}_best = tl.full({shape}, {limit}, {tl})",
            f"{s}_place = tl.full({shape}, {far}, tl.int32)",
        ],
        step=step,
        finish=lambda s: settled(s, f"{s}_best", f"{s}_place"),
        parts=lambda s: [f"{s}_part", f"{s}_part_place"],
        part=lambda s: [
            *settled(s, f"{s}_best", f"{s}_place"),
            f"{s}_part = {s}_value",
            f"{s}_part_place = {s}",
        ],
        whole=lambda s: [
            f"{s}_part = tl.where(part_mask, {s}_part, {limit})",
            f"{s}_part_place = tl.where(part_mask, {s}_part_place, {far})",
            *settled(s, f"{s}_part", f"{s}_part_place"),
        ],
        results=lambda s: [s] if only_place else [f"{s}_value", s],
        part_types=(kind if kind not in (torch.float16, torch.bfloat16) else torch.float32, torch.int32),
    )


def _logical(is_any: bool) -> Reducer:
    base = _extreme(torch.int32, is_any)
    neutral = "0" if is_any else "1"

    def truth(v: str) -> str:
        return f"({v} != 0).to(tl.int32)"

    reduce = "tl.max" if is_any else "tl.min"
    pick = "tl.maximum" if is_any else "tl.minimum"
    return Reducer(
        once=lambda s, v, m: [f"{s} = {reduce}(tl.where({m}, {truth(v)}, {neutral}), axis=1, keep_dims=True) != 0"],
        start=lambda s, shape: [f"{s}_best = tl.full({shape}, {neutral}, tl.int32)"],
        step=lambda s, v, m: [f"{s}_best = {pick}({s}_best, tl.where({m}, {truth(v)}, {neutral}))"],
        finish=lambda s: [f"{s} = {reduce}({s}_best, axis=1, keep_dims=True) != 0"],
        parts=base.parts,
        part=base.part,
        whole=lambda s: [f"{s} = {reduce}(tl.where(part_mask, {s}_part, {neutral}), axis=1, keep_dims=True) != 0"],
        results=lambda s: [s],
        part_types=(torch.int32,),
    )


PRODUCT_HELPER = """@triton.jit
def multiply(a, b):
    return a * b"""


def _product(kind: torch.dtype) -> Reducer:
    tl, one = compute_type(kind), "1.0" if kind.is_floating_point else "1"

    def over(v: str) -> str:
        return f"tl.reduce({v}, 1, multiply, keep_dims=True)"

    return Reducer(
        once=lambda s, v, mask: [f"{s} = {over(f'tl.where({mask}, {v}, {one}).to({tl})')}"],
        start=lambda s, shape: [f"{s}_product = tl.full({shape}, {one}, {tl})"],
        step=lambda s, v, mask: [f"{s}_product *= tl.where({mask}, {v}, {one}).to({tl})"],
        finish=lambda s: [f"{s} = {over(f'{s}_product')}"],
        parts=lambda s: [f"{s}_part"],
        part=lambda s: [f"{s}_part = {over(f'{s}_product')}"],
        whole=lambda s: [f"{s} = {over(f'tl.where(part_mask, {s}_part, {one})')}"],
        results=lambda s: [s],
        part_types=(kind if kind not in (torch.float16, torch.bfloat16) else torch.float32,),
    )


def _variance(kind: torch.dtype, count: str, correction: float) -> Reducer:
    """Welford's update in every lane, the lanes joined by Chan's formula at the end: one reading, no cancellation.

    What rounding left over of a mean is added to it: where all values are alike, a difference of one unit in the last
    place is divided by sqrt(eps) afterwards.
    """
    freedom = f"({count} - {correction:g})" if correction else count
    name = {0.0: "var", 1.0: "unbiased"}.get(correction, identifier(f"corrected_{correction:g}"))
    tl, stored = compute_type(kind), kind if kind is torch.float64 else torch.float32

    def joined(s: str, mean: str, m2: str, seen: str) -> Lines:
        return [
            f"{s}_lanes = {mean}",
            f"{s}_mean = tl.sum({s}_lanes * {seen}, axis=1, keep_dims=True) / {{total}}",
            f"{s}_mean += tl.sum(({s}_lanes - {s}_mean) * {seen}, axis=1, keep_dims=True) / {{total}}",
            f"{s}_off = {s}_lanes - {s}_mean",
            f"{s}_m2 = tl.sum({m2} + {s}_off * {s}_off * {seen}, axis=1, keep_dims=True)",
        ]

    def total(lines: Lines, text: str) -> Lines:
        return [line.replace("{total}", text) for line in lines]

    def once(s: str, v: str, mask: str) -> Lines:
        return [
            f"{s}_mean = tl.sum(tl.where({mask}, {v}, 0.0), axis=1, keep_dims=True) / {count}",
            f"{s}_mean += tl.sum(tl.where({mask}, {v} - {s}_mean, 0.0), axis=1, keep_dims=True) / {count}",
            f"{s}_off = tl.where({mask}, {v} - {s}_mean, 0.0)",
            f"{s}_{name} = tl.sum({s}_off * {s}_off, axis=1, keep_dims=True) / {freedom}",
        ]

    def step(s: str, v: str, mask: str) -> Lines:
        return [
            f"{s}_rounds += 1.0",
            f"{s}_seen += tl.where({mask}, 1.0, 0.0)",
            f"{s}_step = tl.where({mask}, {v} - {s}_mean, 0.0)",
            f"{s}_moved = {s}_step * (1.0 / {s}_rounds)",
            f"{s}_mean += {s}_moved",
            f"{s}_m2 += {s}_step * ({s}_step - {s}_moved)",
        ]

    # A plain number is of 32 bits.
    zero = "tl.zeros((1, 1), tl.float64)" if kind is torch.float64 else "0.0"

    def start(s: str, shape: str) -> Lines:
        return [*(f"{s}_{n} = tl.zeros({shape}, {tl})" for n in ("mean", "m2", "seen")), f"{s}_rounds = {zero}"]

    return Reducer(
        once=once,
        start=start,
        step=step,
        finish=lambda s: [
            *total(joined(s, f"{s}_mean", f"{s}_m2", f"{s}_seen"), count),
            f"{s}_{name} = {s}_m2 / {freedom}",
        ],
        parts=lambda s: [f"{s}_mean", f"{s}_m2", f"{s}_count"],
        part=lambda s: [
            f"{s}_count = tl.sum({s}_seen, axis=1, keep_dims=True)",
            *total(joined(s, f"{s}_mean", f"{s}_m2", f"{s}_seen"), f"tl.maximum({s}_count, 1.0)"),
        ],
        whole=lambda s: [
            f"{s}_count = tl.where(part_mask, {s}_count, 0.0)",
            *total(
                joined(s, f"tl.where(part_mask, {s}_mean, 0.0)", f"tl.where(part_mask, {s}_m2, 0.0)", f"{s}_count"),
                count,
            ),
            f"{s}_{name} = {s}_m2 / {freedom}",
        ],
        results=lambda s: [f"{s}_{name}", f"{s}_mean"],
        part_types=(stored,) * 3,
    )


__all__ = ["PRODUCT_HELPER", "Reducer", "correction_of", "reduced_dims", "reducer"]
