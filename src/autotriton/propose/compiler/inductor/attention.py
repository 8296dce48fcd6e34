"""`scaled_dot_product_attention` as `flex_attention`, for which Inductor has a flash kernel. Runs in the child only.

The operator behind `flex_attention` is called itself: its public function compiles, and a trace is under way already.
Causal attention gets a block mask, so that blocks above the diagonal are never looked at; any other mask changes the
scores one by one. What the operator cannot do goes torch's usual way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention
from torch.nn.attention.flex_attention import BlockMask

_BLOCK = 128
_WHOLE = 1 << 30
"""Block size by which Inductor knows that there is no block mask."""
_LEAST_HEAD = 16
"""`tl.dot` takes no smaller dimension."""
_OPTIONS = {
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": True,
    "OUTPUT_LOGSUMEXP": False,
    "OUTPUT_MAX": False,
}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass
class Rewriting:
    """What became of the calls seen."""

    rewritten: int = 0
    refused: str = ""
    """Why a call was left as it is."""


@contextmanager
def as_flex_attention(enabled: bool) -> Iterator[Rewriting]:
    """While open, calls of torch's attention are traced as the flash kernel's operator where it serves."""
    seen = Rewriting()
    original = F.scaled_dot_product_attention

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        why_not = refusal(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if not why_not:
            seen.rewritten += 1
            return _attention(query, key, value, attn_mask, is_causal, scale)
        seen.refused = why_not
        more = {"enable_gqa": True} if enable_gqa else {}
        return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)

    if not enabled:
        yield seen
        return
    with mock.patch.object(F, "scaled_dot_product_attention", attention):
        yield seen


def refusal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
) -> str:
    """Why the flash kernel cannot do it; empty where it can."""
    if dropout_p > 0.0:
        return "dropout is active"
    if query.dim() not in (3, 4) or not query.dim() == key.dim() == value.dim():
        return f"operands of {query.dim()}, {key.dim()} and {value.dim()} dimensions"
    if query.dtype not in _FLOATS or not query.dtype == key.dtype == value.dtype:
        return f"operands of type {query.dtype}"
    if min(query.shape[-1], value.shape[-1]) < _LEAST_HEAD:
        return f"heads of {min(query.shape[-1], value.shape[-1])} numbers; the kernel takes {_LEAST_HEAD} and more"
    if query.shape[:-3] != key.shape[:-3] or key.shape[:-2] != value.shape[:-2]:
        return "batches of different sizes"
    heads, shared = (query.shape[-3], key.shape[-3]) if query.dim() == 4 else (1, 1)
    if heads != shared and not (enable_gqa and shared and heads % shared == 0):
        return f"{heads} heads over {shared}"
    if mask is not None and is_causal:
        return "a mask on top of causal attention"
    if mask is not None and (mask.dtype not in (torch.bool, query.dtype) or not 2 <= mask.dim() <= query.dim()):
        return f"a mask of type {mask.dtype} and {mask.dim()} dimensions"
    return ""


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    flat = query.dim() == 3
    if flat:
        query, key, value = (tensor.unsqueeze(1) for tensor in (query, key, value))
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    buffers: tuple[Tensor, ...] = ()
    change: Callable[..., Tensor] = _unchanged
    if mask is not None:
        buffers = (mask[(None,) * (4 - mask.dim())],)
        change = _masking(buffers[0])
    blocks = (_causal_blocks if is_causal else _one_block)(query.shape[-2], key.shape[-2], query.device)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    found: Any = flex_attention(query, key, value, change, blocks, scale, dict(_OPTIONS), buffers, ())
    return found[0].squeeze(1) if flat else found[0]  # type: ignore[no-any-return]


def _unchanged(score: Tensor, b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return score


def _masking(mask: Tensor) -> Callable[..., Tensor]:
    def change(score: Tensor, b: Tensor, h: Tensor, row: Tensor, column: Tensor, values: Tensor) -> Tensor:
        # A dimension of size one is shared by all.
        places = [place if size > 1 else 0 for place, size in zip((b, h, row, column), mask.shape, strict=True)]
        value = values[places[0], places[1], places[2], places[3]]
        return torch.where(value, score, -float("inf")) if mask.dtype is torch.bool else score + value

    return change


def _everywhere(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return b.new_ones((), dtype=torch.bool)


def _below_diagonal(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return row >= column


def _one_block(rows: int, columns: int, device: torch.device) -> tuple[Any, ...]:
    count = torch.ones((1, 1, 1), dtype=torch.int32, device=device)
    place = torch.zeros((1, 1, 1, 1), dtype=torch.int32, device=device)
    return BlockMask.from_kv_blocks(
        count, place, BLOCK_SIZE=_WHOLE, mask_mod=_everywhere, seq_lengths=(rows, columns), compute_q_blocks=False
    ).as_tuple()


def _causal_blocks(rows: int, columns: int, device: torch.device) -> tuple[Any, ...]:
    """Row block i looks at the column blocks before it whole and at the i-th with the mask."""
    down, across = -(-rows // _BLOCK), -(-columns // _BLOCK)
    number = torch.arange(down, dtype=torch.int32, device=device)
    whole = columns // _BLOCK  # a last block that is cut off counts as one with a mask
    full = torch.clamp(number, max=whole).reshape(1, 1, down)
    partial = (torch.clamp(number + 1, max=across) - full.reshape(down)).reshape(1, 1, down).to(torch.int32)
    column = torch.arange(across, dtype=torch.int32, device=device)
    full_places = column.expand(1, 1, down, across)
    # After those that are whole come the ones with a mask; what lies beyond their count is never read.
    places = torch.clamp(full.reshape(down, 1) + column, max=across - 1).reshape(1, 1, down, across).to(torch.int32)
    return BlockMask.from_kv_blocks(
        partial,
        places,
        full,
        full_places.contiguous(),
        BLOCK_SIZE=_BLOCK,
        mask_mod=_below_diagonal,
        seq_lengths=(rows, columns),
        compute_q_blocks=False,
    ).as_tuple()
