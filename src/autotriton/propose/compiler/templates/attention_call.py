"""One call of scaled_dot_product_attention: its tensors, sizes and options, with the text every kernel for it shares.

    out = softmax(query @ key.T * scale + mask) @ value        over batch dimensions and heads

Names of sizes: L queries, S keys, E the length of a query or key, V that of a value; `B` and `H` before them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.fx

from autotriton.propose.compiler.templates.attention_patterns import softmax_attention
from autotriton.propose.compiler.templates.matmul_contraction import FLOATS
from autotriton.propose.compiler.templates.matmul_text import unravelled
from autotriton.propose.compiler.templates.piece import shape_of


@dataclass(frozen=True)
class Attention:
    query: torch.fx.Node
    key: torch.fx.Node
    value: torch.fx.Node
    mask: torch.fx.Node | None
    causal: bool
    scale: float | None
    """None: 1 / sqrt(E)."""
    batch: tuple[str, ...]
    """Names of the dimensions before L and E; the last one counts heads where there are several."""
    grouped: bool
    """Several query heads share one key and value."""
    empty_is_zero: bool = True
    """A row whose keys are all masked is zero; otherwise NaN, as a softmax makes it."""

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.query.meta["val"].dtype
        return dtype

    @property
    def output(self) -> tuple[str, ...]:
        return (*self.batch, "L", "V")

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Batch times heads, L, S, E, V in the example."""
        batch = math.prod(max(shape_of(node)[axis] for node in self._tensors()) for axis in range(len(self.batch)))
        *_, queries, width = shape_of(self.query)
        *_, keys, values = shape_of(self.value)
        return batch, queries, keys, width, values

    def _tensors(self) -> tuple[torch.fx.Node, ...]:
        return (self.query, self.key, self.value)

    @property
    def names(self) -> list[str]:
        """The wrapper's own parameters."""
        return ["query", "key", "value", *(["attn_mask"] if self.mask is not None else [])]

    @property
    def nodes(self) -> tuple[torch.fx.Node, ...]:
        return (*self._tensors(), *([self.mask] if self.mask is not None else []))

    @property
    def mask_is_bool(self) -> bool:
        return self.mask is not None and self.mask.meta["val"].dtype is torch.bool


def attention_of(node: torch.fx.Node) -> Attention | None:
    """None where the call is one we cannot write."""
    written_out = node.target is softmax_attention
    options = ("scale", "is_causal") if written_out else ("dropout_p", "is_causal")
    names = ("query", "key", "value", "attn_mask", *options)
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    tensors = [tensor for name in names[:3] if isinstance(tensor := given[name], torch.fx.Node)]
    mask, scale, causal = given.get("attn_mask"), given.get("scale"), bool(given.get("is_causal", False))
    if len(tensors) != 3 or given.get("dropout_p", 0.0) != 0:
        return None
    if not isinstance(mask, torch.fx.Node | None) or not isinstance(scale, float | int | None) or (mask and causal):
        return None
    query, key, value = tensors
    ranks = {len(shape_of(tensor)) for tensor in tensors}
    dtypes = {tensor.meta["val"].dtype for tensor in tensors}
    if len(ranks) != 1 or min(ranks) < 2 or len(dtypes) != 1 or not dtypes <= set(FLOATS):
        return None
    batch = _batch_names(ranks.pop() - 2)
    grouped = bool(batch) and (written_out or bool(given.get("enable_gqa"))) and _shares_heads(query, key)
    found = Attention(query, key, value, mask, causal, scale, batch, grouped, not written_out)
    return found if _fits(found) else None


def _shares_heads(query: torch.fx.Node, key: torch.fx.Node) -> bool:
    heads, kept = shape_of(query)[-3], shape_of(key)[-3]
    return kept not in (1, heads) and heads != 1


def _batch_names(count: int) -> tuple[str, ...]:
    if count < 2:
        return ("B",) * count
    return (*(("B",) if count == 2 else (f"B{i}" for i in range(count - 1))), "H")


def _fits(call: Attention) -> bool:
    """Sizes agree up to broadcasting, and no mask type is unknown."""
    if call.mask is not None and call.mask.meta["val"].dtype not in (torch.bool, *FLOATS):
        return False
    shapes = [shape_of(node) for node in (call.query, call.key, call.value)]
    for axis in range(len(call.batch)):
        sizes = {shape[axis] for shape in shapes} - {1}
        heads = call.grouped and axis == len(call.batch) - 1
        if heads and (shapes[1][axis] != shapes[2][axis] or shapes[0][axis] % shapes[1][axis]):
            return False
        if not heads and len(sizes) > 1:
            return False
    return True


def size_lines(call: Attention) -> list[str]:
    """Statements of the wrapper that name the sizes."""
    shapes = {"query": shape_of(call.query), "key": shape_of(call.key), "value": shape_of(call.value)}
    full = all(
        shapes["query"][axis] != 1 or shapes["key"][axis] == 1 == shapes["value"][axis]
        for axis in range(len(call.batch))
    )
    if full:
        lines = [f"{', '.join([*call.batch, 'L', 'E'])} = query.shape"]
    else:
        wide = {
            axis: next((name for name, shape in shapes.items() if shape[axis] != 1), "query")
            for axis in range(len(call.batch))
        }
        lines = [f"{name} = {wide[axis]}.shape[{axis}]" for axis, name in enumerate(call.batch)]
        lines.append("L, E = query.shape[-2:]")
    lines.append("S, V = value.shape[-2:]")
    if call.grouped:
        lines.append(f"group = {call.batch[-1]} // key.shape[-3]")
    if call.mask is not None:
        lines.append(f"attn_mask = attn_mask.expand({', '.join([*call.batch, 'L', 'S'])})")
    return lines


def batch_terms(call: Attention, name: str, node: torch.fx.Node) -> tuple[list[str], list[str], str]:
    """Stride parameters, their arguments and the offset of a tensor's own matrix; empty where it is broadcast."""
    parameters, arguments, terms = [], [], []
    for axis, (dim, index) in enumerate(zip(call.batch, unravelled("batch", call.batch), strict=True)):
        if name != "attn_mask" and shape_of(node)[axis] == 1:
            continue
        shared = call.grouped and name in ("key", "value") and axis == len(call.batch) - 1
        parameters.append(f"{name}_{dim.lower()}_stride")
        arguments.append(f"{name}.stride({axis})")
        terms.append(f"{index} // group * {parameters[-1]}" if shared else f"{index} * {parameters[-1]}")
    return parameters, arguments, " + ".join(terms)


def scale_text(call: Attention) -> str:
    return "E**-0.5" if call.scale is None else repr(float(call.scale))


def formula_of(call: Attention) -> str:
    inner = "query @ key.T * scale"
    if call.mask is not None:
        inner = f"where(attn_mask, {inner}, -inf)" if call.mask_is_bool else f"{inner} + attn_mask"
    return f"softmax({'causal(' if call.causal else ''}{inner}{')' if call.causal else ''}) @ value"
