"""GRPO's forward pass without padding: a micro-batch's answers behind each other in one sequence.

TRL pads every answer of a step to the longest one, which may be three times the mean; here only tokens that exist are
computed. Needs the attention of `attention.py`, which keeps the answers apart.
"""

from __future__ import annotations

import importlib
from typing import Any


def unpadded(base: type) -> type:
    """TRL's GRPOTrainer with another way to log-probabilities; everything else is its own."""
    torch: Any = importlib.import_module("torch")
    parent: Any = base

    class Unpadded(parent):  # type: ignore[misc]
        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, batch_size: int | None = None,
            compute_entropy: bool = False, **more: Any,
        ) -> tuple[Any, Any, Any]:  # fmt: skip
            if any(value is not None and value is not False for value in more.values()):  # images, experts
                return super()._get_per_token_logps_and_entropies(  # type: ignore[no-any-return]
                    model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **more
                )
            size = batch_size or len(input_ids)
            parts = [
                self._packed(model, *rows, logits_to_keep)
                for rows in zip(input_ids.split(size), attention_mask.split(size), strict=True)
            ]
            logps, entropies = (torch.cat(found) for found in zip(*parts, strict=True))
            return logps, entropies if compute_entropy else None, None

        def _packed(self, model: Any, input_ids: Any, attention_mask: Any, keep: int) -> tuple[Any, Any]:
            present = attention_mask.bool()
            lengths = present.sum(1)
            ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
            tokens = input_ids[present]
            places = torch.arange(len(tokens), device=tokens.device) - ends[:-1].repeat_interleave(lengths)
            asked_for = present.clone()
            asked_for[:, :-keep] = False
            # A row's first token follows another row's last one: nothing predicts it.
            labels = tokens.masked_fill(~asked_for[present] | (places == 0), -100)
            longest = int(lengths.max())
            with self.accelerator.autocast():
                outputs = model(
                    input_ids=tokens[None], position_ids=places[None], labels=labels[None], fused_lm_head=True,
                    cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=longest, max_length_k=longest,
                )  # fmt: skip
            logps, entropies = (_spread(torch, found[0], present) for found in (outputs.log_probs, outputs.entropy))
            return logps[:, -keep:], entropies[:, -keep:]

    return Unpadded


def _spread(torch: Any, found: Any, present: Any) -> Any:
    """Back to rows: what was found stands at the token before the one it is about."""
    padded = torch.zeros(present.shape, dtype=found.dtype, device=found.device)
    return padded.masked_scatter(present, torch.nn.functional.pad(found, (1, 0)))
