"""Weights of modules as they are used: shared, in training, with adapters; and modules the decoder refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="needs the train extra")
sys.path.insert(0, str(Path(__file__).parent))

from tiny import WORDS, generated, model_of, prompts_of  # noqa: E402

from autotriton.propose.decoding.decoder import Decoder  # noqa: E402
from autotriton.propose.decoding.records import Request  # noqa: E402
from autotriton.propose.decoding.weights import unsupported  # noqa: E402

pytestmark = pytest.mark.interp

[PROMPT] = prompts_of(9)
REQUEST = Request(prompt=PROMPT, max_tokens=16, temperature=0.0)


def answer(decoder: Decoder) -> list[int]:
    return list(decoder.all([REQUEST])[0].tokens)


@torch.no_grad()
def disturb(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn_like(parameter) * 0.2)


def test_a_trained_module_answers_as_it_is_now_after_a_refresh():
    model = model_of("llama")
    decoder = Decoder(model)
    before = answer(decoder)
    disturb(model)
    decoder.refresh()
    assert answer(decoder) == generated(model, PROMPT, 16) != before


def test_shared_weights_have_no_second_copy_and_the_module_still_works():
    model = model_of("qwen2")
    expected = generated(model, PROMPT, 16)
    decoder = Decoder(model, share=True)
    layer, mine = model.model.layers[0], decoder.weights.layers[0]
    assert layer.self_attn.q_proj.weight.data_ptr() == mine.qkv.data_ptr()
    assert layer.mlp.down_proj.weight.data_ptr() == mine.down.data_ptr()
    assert answer(decoder) == generated(model, PROMPT, 16) == expected
    disturb(model)  # in place: nothing to refresh
    assert answer(decoder) == generated(model, PROMPT, 16) != expected


@pytest.mark.parametrize("targets", [["q_proj", "v_proj", "gate_proj", "down_proj"], ["lm_head"], ["embed_tokens"]])
def test_an_adapter_in_training_is_part_of_the_weights(targets):
    peft = pytest.importorskip("peft")
    base = model_of("llama")
    plain = generated(base, PROMPT, 16)
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=16, target_modules=targets)).eval()
    decoder = Decoder(adapted)
    assert answer(decoder) == plain, "a new adapter adds nothing"
    disturb(adapted)
    decoder.refresh()
    assert answer(decoder) == generated(adapted, PROMPT, 16) != plain


def test_a_module_of_32_bits_can_be_decoded_in_16():
    model = model_of("qwen2")
    decoder = Decoder(model, dtype=torch.bfloat16)
    assert decoder.weights.layers[0].qkv.dtype == torch.bfloat16
    assert next(model.parameters()).dtype == torch.float32
    first = answer(decoder)
    expected = generated(model_of("qwen2").to(torch.bfloat16), PROMPT, 16)
    assert first == expected


def test_a_scaled_rotation_is_the_modules_own():
    scaled = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    model = model_of("llama", rope_parameters=scaled)
    assert answer(Decoder(model)) == generated(model, PROMPT, 16) != generated(model_of("llama"), PROMPT, 16)


def test_models_of_another_make_are_refused_in_words():
    config = transformers.GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2)
    other = transformers.GPT2LMHeadModel(config)
    assert "GPT2LMHeadModel is none of" in unsupported(other)
    with pytest.raises(ValueError, match="does not take this model: GPT2"):
        Decoder(other)
    assert unsupported(model_of("llama", hidden_act="gelu")) == "its activation is gelu"
    sliding = model_of("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=0)
    assert unsupported(sliding) == "it attends to a sliding window"
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    assert unsupported(model_of("llama", rope_parameters=dynamic)) == "its position embedding is dynamic"
    quantised = model_of("llama")
    quantised.lm_head.weight = torch.nn.Parameter(torch.zeros(4, 4, dtype=torch.uint8), requires_grad=False)
    assert unsupported(quantised) == "its weights are quantised"
