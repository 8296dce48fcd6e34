"""Finds attention that is written with products and a softmax, so that one kernel does it and no scores reach memory.

    softmax(query @ key.T * scale, masked) @ value

where the mask is added, or scores are replaced by -inf. Everything between the two products must be used there only.
A mask made of constants is looked at: it has to be the causal one, or none at all.
A row whose keys are all masked is NaN here, as in the operators it replaces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch import Tensor

from autotriton.propose.compiler.templates.matmul_contraction import FLOATS
from autotriton.propose.compiler.templates.piece import shape_of
from autotriton.propose.compiler.templates.scan_patterns import Pattern

aten = torch.ops.aten
Node = torch.fx.Node
_PRODUCTS = (aten.matmul.default, aten.bmm.default)
_COPIES = (aten.clone.default, aten.alias.default, aten.detach.default)


@Pattern
def softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    if query.dim() > 2 and key.shape[-3] not in (1, query.shape[-3]):  # several query heads share a key
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.mT * scale
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1).to(value.dtype) @ value


def merge_attention(graph: torch.fx.Graph) -> int:
    """Rewrites attention in place, and says how often it was found."""
    found = 0
    for node in list(graph.nodes):
        match = _match(node)
        if match is not None and match.is_closed(node):
            _rewrite(graph, node, match)
            found += 1
    if found:
        graph.eliminate_dead_code()
    return found


@dataclass
class _Match:
    query: Node
    key_transposed: Node
    value: Node
    scale: float = 1.0
    mask: Node | None = None
    true_is_kept: bool | None = None
    """Whether True in the mask means that the score is kept; None for a mask that is added."""
    causal: bool = False
    inner: list[Node] = field(default_factory=list)
    """What the new operator replaces, besides the last product."""

    def is_closed(self, last: Node) -> bool:
        inside = {last, *self.inner}
        return all(user in inside for node in self.inner for user in node.users)


def _match(node: Node) -> _Match | None:
    """From the second product backwards."""
    if node.target not in _PRODUCTS:
        return None
    weights, value = node.args[:2]
    inner: list[Node] = []
    scores = _softmax_input(_skip(weights, inner), inner)
    if scores is None or not isinstance(value, Node):
        return None
    match = _Match(scores, scores, value, inner=inner)
    first = _first_product(_skip(scores, inner), match)
    if first is None:
        return None
    inner.append(first)
    match.query, match.key_transposed = first.args[:2]  # type: ignore[assignment]
    _fold_query_scale(match)
    return match if _fits(match) and _understands_constant_mask(match) else None


def _skip(node: object, inner: list[Node]) -> Node | None:
    """Through copies and casts between floating types."""
    while isinstance(node, Node) and (node.target in _COPIES or _is_cast(node)):
        inner.append(node)
        node = node.args[0]
    return node if isinstance(node, Node) else None


def _is_cast(node: Node) -> bool:
    return node.target is aten._to_copy.default and node.meta["val"].dtype in FLOATS


def _softmax_input(node: Node | None, inner: list[Node]) -> Node | None:
    """x of exp(x - amax(x)) / sum(exp(x - amax(x))), over the last dimension."""
    if node is None or node.target is not aten.div.Tensor:
        return None
    above, below = node.args[:2]
    if not (isinstance(above, Node) and isinstance(below, Node)) or above.target is not aten.exp.default:
        return None
    shifted = above.args[0]
    if below.target is not aten.sum.dim_IntList or below.args[0] is not above or not _over_last(below):
        return None
    if not isinstance(shifted, Node) or shifted.target is not aten.sub.Tensor or shifted.kwargs:
        return None
    x, largest = shifted.args[:2]
    if not isinstance(largest, Node) or largest.target is not aten.amax.default or largest.args[0] is not x:
        return None
    if not isinstance(x, Node) or not _over_last(largest):
        return None
    inner += [node, above, below, shifted, largest, x]
    return x


def _over_last(node: Node) -> bool:
    """Reduces the last dimension and keeps it as one of size 1."""
    x, dims, keep = (*node.args, None, None)[:3]
    rank = len(shape_of(x))  # type: ignore[arg-type]
    return dims in ([-1], [rank - 1]) and bool(keep)


def _first_product(node: Node | None, match: _Match) -> Node | None:
    """Through one mask and any scales to the product; what is passed goes into the match."""
    while node is not None and node.target not in _PRODUCTS:
        if node not in match.inner:
            match.inner.append(node)
        if node.target in (aten.mul.Tensor, aten.div.Tensor) and isinstance(node.args[1], int | float):
            factor = float(node.args[1])
            if factor == 0:
                return None
            match.scale *= factor if node.target is aten.mul.Tensor else 1.0 / factor
            node = _skip(node.args[0], match.inner)
        elif match.mask is None and match.scale == 1.0:
            node = _through_mask(node, match)
        else:
            return None
    return node


def _through_mask(node: Node, match: _Match) -> Node | None:
    if node.target is aten.where.self:
        condition, one, other = node.args
        kept = _is_minus_infinity(other)
        if not kept and not _is_minus_infinity(one):
            return None
        scores = one if kept else other
        if not isinstance(scores, Node) or shape_of(scores) != shape_of(node):
            return None
        match.mask, match.true_is_kept = condition, kept  # type: ignore[assignment]
        return _skip(scores, match.inner)
    if node.target is aten.add.Tensor and not node.kwargs:
        for scores, mask in (node.args[:2], node.args[1::-1]):
            if (
                isinstance(mask, Node)
                and isinstance(scores, Node)
                and scores.meta["val"].shape == node.meta["val"].shape
            ):
                ahead = _skip(scores, [])
                if ahead is not None and ahead.target in (*_PRODUCTS, aten.mul.Tensor, aten.div.Tensor):
                    match.mask = mask
                    return _skip(scores, match.inner)
    return None


def _is_minus_infinity(node: object) -> bool:
    if not isinstance(node, Node) or node.target not in (aten.scalar_tensor.default, aten.full.default):
        return False
    return bool(node.args[0 if node.target is aten.scalar_tensor.default else 1] == -math.inf)


def _fold_query_scale(match: _Match) -> None:
    """(query * number) @ key.T is query @ key.T * number."""
    query = match.query
    if query.target is aten.mul.Tensor and isinstance(query.args[1], int | float) and len(query.users) == 1:
        match.scale *= float(query.args[1])
        match.inner.append(query)
        match.query = query.args[0]  # type: ignore[assignment]


def _fits(match: _Match) -> bool:
    tensors = (match.query, match.key_transposed, match.value)
    if not all(isinstance(tensor, Node) for tensor in tensors):
        return False
    if len({len(shape_of(tensor)) for tensor in tensors}) != 1 or len(shape_of(match.query)) < 3:
        return False
    return match.mask is None or match.mask.meta["val"].dtype in (torch.bool, *FLOATS)


def _understands_constant_mask(match: _Match) -> bool:
    """Causal and empty masks become options. Others of constants have no tensor to take their device from."""
    if match.mask is None:
        return True
    queries, keys = shape_of(match.query)[-2], shape_of(match.value)[-2]
    if _depends_on_input(match.mask):
        return True
    mask = _evaluated(match.mask) if queries * keys <= _LARGEST_MASK else None
    if mask is None:
        return False
    kept, zero = _kept(mask, match.true_is_kept)
    kept = kept.expand(*kept.shape[: max(0, kept.dim() - 2)], queries, keys)
    match.causal = bool((kept == torch.ones(queries, keys, dtype=torch.bool).tril()).all())
    match.mask = None
    return zero and (match.causal or bool(kept.all()))


_LARGEST_MASK = 1 << 24


def _kept(mask: Tensor, true_is_kept: bool | None) -> tuple[Tensor, bool]:
    """Which scores are kept, and whether those are left as they are."""
    if true_is_kept is None:
        return mask != -math.inf, bool(((mask == 0) | (mask == -math.inf)).all())
    return (mask if true_is_kept else ~mask), True


def _depends_on_input(node: Node) -> bool:
    return node.op != "call_function" or any(_depends_on_input(each) for each in node.all_input_nodes)


def _evaluated(node: object) -> Any:
    """A value made of constants only; None where that is not known."""
    if not isinstance(node, Node):
        return node
    if not isinstance(node.meta.get("val"), Tensor) or not all(
        isinstance(size, int) for size in node.meta["val"].shape
    ):
        return None
    args = [[_evaluated(item) for item in arg] if isinstance(arg, list) else _evaluated(arg) for arg in node.args]
    if any(value is None and given is not None for value, given in zip(args, node.args, strict=True)):
        return None
    return node.target(*args, **{key: _evaluated(value) for key, value in node.kwargs.items()})  # type: ignore[operator]


def _rewrite(graph: torch.fx.Graph, last: Node, match: _Match) -> None:
    with graph.inserting_before(last):
        key, value = _shared(_transposed(graph, match.key_transposed), match.value)
        mask = match.mask
        if mask is not None and match.true_is_kept is False:
            mask = _called(graph, aten.logical_not.default, (mask,))
        new = graph.call_function(softmax_attention, (match.query, key, value, mask, match.scale, match.causal))
    new.meta["val"] = last.meta["val"]
    last.replace_all_uses_with(new)
    graph.erase_node(last)


def _shared(key: Node, value: Node) -> tuple[Node, Node]:
    """Keys and values before their heads were repeated for the query heads that share them."""
    found = _unrepeated(key), _unrepeated(value)
    if found[0] is None or found[1] is None or shape_of(found[0])[:-1] != shape_of(found[1])[:-1]:
        return key, value
    return found[0], found[1]


def _unrepeated(node: Node) -> Node | None:
    """x of `x.unsqueeze(2).expand(B, heads, group, S, E).reshape(B, heads * group, S, E)`, with several heads."""
    if node.target not in (aten.view.default, aten.reshape.default, aten._unsafe_view.default):
        return None
    expanded = _skip(node.args[0], [])
    if expanded is None or expanded.target is not aten.expand.default or len(shape_of(expanded)) != 5:
        return None
    single = expanded.args[0]
    if not isinstance(single, Node) or single.target is not aten.unsqueeze.default or single.args[1] not in (2, -3):
        return None
    x = single.args[0]
    batch, heads, group, *rest = shape_of(expanded)
    fits = (
        isinstance(x, Node) and shape_of(x) == (batch, heads, *rest) and shape_of(node) == (batch, heads * group, *rest)
    )
    return x if fits and heads > 1 else None  # type: ignore[return-value]


def _transposed(graph: torch.fx.Graph, node: Node) -> Node:
    """The last two dimensions swapped: what was transposed before, or a view of it."""
    rank = len(shape_of(node))
    order = [*range(rank - 2), rank - 1, rank - 2]
    if node.target is aten.permute.default and [int(d) % rank for d in node.args[1]] == order:  # type: ignore[arg-type, union-attr]
        return node.args[0]  # type: ignore[return-value]
    return _called(graph, aten.permute.default, (node, order))


def _called(graph: torch.fx.Graph, target: torch._ops.OpOverload, args: tuple[object, ...]) -> Node:
    node = graph.call_function(target, args)  # type: ignore[arg-type]
    node.meta["val"] = target(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in args))
    return node
