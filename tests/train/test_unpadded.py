"""Log-probabilities without padding are those with it, and so are their gradients."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
import trl
from trl.trainer.utils import add_fused_lm_head

from autotriton.train import attention
from autotriton.train.unpadded import unpadded

PROMPTS, ANSWERS = (3, 7, 1, 5), (6, 2, 9, 4)


def model_of(implementation: str) -> Any:
    attention.register()
    config = transformers.Qwen2Config(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation=implementation,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(config).eval()
    add_fused_lm_head(model, temperature=0.8, outputs=("log_probs", "entropy"))
    return model


def padded_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts to the left of the seam, answers to its right, as TRL lays them out."""
    torch.manual_seed(1)
    seam, width = max(PROMPTS), max(PROMPTS) + max(ANSWERS)
    columns = torch.arange(width)
    mask = torch.stack([(columns >= seam - p) & (columns < seam + a) for p, a in zip(PROMPTS, ANSWERS, strict=True)])
    return torch.randint(1, 61, mask.shape) * mask, mask.long()


@pytest.mark.parametrize("batch_size", [None, 3])
def test_what_is_computed_is_what_padding_would_give(batch_size: int | None) -> None:
    host = SimpleNamespace(accelerator=SimpleNamespace(autocast=nullcontext, is_main_process=True))
    ids, mask = padded_batch()
    keep = max(ANSWERS)
    theirs_model, ours_model = model_of("sdpa"), model_of(attention.NAME)
    theirs = trl.GRPOTrainer._get_per_token_logps_and_entropies(host, theirs_model, ids, mask, keep, None, True)
    kind = unpadded(trl.GRPOTrainer)
    host._packed = lambda *rows: kind._packed(host, *rows)
    ours = kind._get_per_token_logps_and_entropies(host, ours_model, ids, mask, keep, batch_size, True)
    answered = mask[:, -keep:].bool()
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(one[answered], other[answered], atol=1e-4, rtol=1e-4)
        assert one.shape == other.shape
    for logps in (ours[0], theirs[0]):
        (logps * answered).sum().backward()
    for one, other in zip(ours_model.parameters(), theirs_model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-3, rtol=1e-3)
