"""Tiny random models of both kinds, and what transformers itself says of them."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

WORDS = 97


def model_of(kind: str, *, width: int = 8, layers: int = 2, **more: object) -> Qwen2ForCausalLM | LlamaForCausalLM:
    """Weights large enough that its next tokens are far from equally likely."""
    config_class, model_class = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[kind]
    shape = {"num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 6 * width, "intermediate_size": 40}
    torch.manual_seed(7)
    config = config_class(
        vocab_size=WORDS,
        num_hidden_layers=layers,
        max_position_embeddings=4096,
        initializer_range=0.3,
        **{**shape, "tie_word_embeddings": kind == "qwen2", "eos_token_id": None, "bos_token_id": None, **more},
    )
    model = model_class(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # they start as zeros
                parameter.normal_(0, 0.3)
            elif "norm" in name:
                parameter.normal_(1, 0.2)
    return model


def prompts_of(*lengths: int) -> list[tuple[int, ...]]:
    torch.manual_seed(3)
    return [tuple(torch.randint(WORDS, (length,)).tolist()) for length in lengths]


@torch.no_grad()
def generated(model: torch.nn.Module, prompt: tuple[int, ...], count: int) -> list[int]:
    """Greedy, by transformers' own `generate`."""
    tokens = torch.tensor([prompt])
    whole = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return whole[0, len(prompt) :].tolist()


@torch.no_grad()
def logprobs_of(
    model: torch.nn.Module, prompt: tuple[int, ...], answer: tuple[int, ...], temperature: float = 1.0
) -> torch.Tensor:
    """Of the answer's tokens, by one forward pass over the whole."""
    logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].float()
    return (logits / temperature).log_softmax(-1).gather(-1, torch.tensor(answer)[:, None])[:, 0]
