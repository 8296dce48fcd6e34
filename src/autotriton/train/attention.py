"""Attention over packed rows, each to itself only, without a mask as large as the square of their tokens.

`model.attention = "packed"`: torch's own flash kernel with the rows' boundaries, which TRL's collator hands over;
no package besides torch, nothing to compile. What is not packed goes to torch's `scaled_dot_product_attention`.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

NAME = "packed"


def register() -> None:
    """Makes the name known to transformers."""
    transformers: Any = importlib.import_module("transformers")
    masks: Any = importlib.import_module("transformers.masking_utils")
    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, lambda *args, **given: _mask(masks.sdpa_mask, *args, **given))


def _mask(dense: Any, *args: Any, attention_mask: Any = None, **given: Any) -> Any:
    """Only where rows are padded; packed ones have boundaries instead."""
    return None if attention_mask is None else dense(*args, attention_mask=attention_mask, **given)


def attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None,
    dropout: float = 0.0, cu_seq_lens_q: Any = None, max_length_q: int | None = None, **given: Any,
) -> tuple[Any, None]:  # fmt: skip
    """As transformers calls it: (1, heads, tokens, head) in, (1, tokens, heads, head) out."""
    if cu_seq_lens_q is None:
        plain: Any = importlib.import_module("transformers.integrations.sdpa_attention")
        found: tuple[Any, None] = plain.sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **given
        )
        return found
    one_by_one = _each if query.device.type == "cpu" else _flash
    out = one_by_one(query[0], key[0], value[0], cu_seq_lens_q, max_length_q, scaling)
    return out[None], None


def _flash(query: Any, key: Any, value: Any, ends: Any, longest: int | None, scaling: float | None) -> Any:
    torch: Any = importlib.import_module("torch")
    most = int(ends.diff().max()) if longest is None else int(longest)
    rows = (tensor.transpose(0, 1) for tensor in (query, key, value))
    return torch.ops.aten._flash_attention_forward(
        *rows, ends, ends, most, most, 0.0, True, False, scale=scaling
    )[0]  # fmt: skip


def _each(query: Any, key: Any, value: Any, ends: Any, longest: int | None, scaling: float | None) -> Any:
    torch: Any = importlib.import_module("torch")
    places = ends.tolist()
    parts = [
        torch.nn.functional.scaled_dot_product_attention(
            *(tensor[None, :, start:stop] for tensor in (query, key, value)),
            is_causal=True, scale=scaling, enable_gqa=True,
        )[0]
        for start, stop in itertools.pairwise(places)
    ]  # fmt: skip
    return torch.cat(parts, dim=1).transpose(0, 1)
