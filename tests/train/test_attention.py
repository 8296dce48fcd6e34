"""Packed rows see themselves only, with gradients that are those of each row alone."""

from __future__ import annotations

import pytest
import torch
import transformers

from autotriton.train import attention

LENGTHS = (5, 1, 17, 9)


def model_of(implementation: str) -> torch.nn.Module:
    attention.register()
    config = transformers.Qwen2Config(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation=implementation,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(config).eval()


def packed(rows: list[torch.Tensor]) -> dict[str, torch.Tensor | int]:
    """As TRL's collator hands them over."""
    ends = torch.tensor([0, *LENGTHS]).cumsum(0).to(torch.int32)
    places = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    longest = max(LENGTHS)
    return {
        "input_ids": torch.cat(rows)[None], "position_ids": places, "cu_seq_lens_q": ends, "cu_seq_lens_k": ends,
        "max_length_q": longest, "max_length_k": longest,
    }  # fmt: skip


@pytest.fixture
def rows() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randint(0, 97, (length,)) for length in LENGTHS]


def test_rows_in_one_sequence_are_answered_as_rows_alone(rows):
    model = model_of(attention.NAME)
    together = model(**packed(rows)).logits[0]
    alone = torch.cat([model_of("sdpa")(row[None]).logits[0] for row in rows])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_rows_alone(rows):
    together, alone = model_of(attention.NAME), model_of("sdpa")
    together(**packed(rows)).logits.square().sum().backward()
    for row in rows:
        alone(row[None]).logits.square().sum().backward()
    for one, other in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-3, rtol=1e-4)


def test_padded_rows_keep_their_mask(rows):
    model, plain = model_of(attention.NAME), model_of("sdpa")
    longest = max(LENGTHS)
    ids = torch.stack([torch.cat([torch.zeros(longest - len(row), dtype=torch.int64), row]) for row in rows])
    mask = torch.stack([torch.arange(longest) >= longest - len(row) for row in rows]).long()
    ours, theirs = (one(input_ids=ids, attention_mask=mask).logits for one in (model, plain))
    torch.testing.assert_close(ours[:, -1], theirs[:, -1], atol=1e-5, rtol=1e-5)
