"""Writes a real, tiny Llama checkpoint whose answers are known: `python small_model.py FOLDER ANSWERS.json [ADAPTER]`.

ANSWERS.json maps a word the prompt ends with to the answer the model gives. An answer is a few long tokens, and the
weights are set so that each token leads to the next: embeddings are unit vectors, attention and MLP add nothing, and
the head maps a token's vector to its successor. All else (tokenizer, chat template, generation, files) is as usual.
With ADAPTER, a LoRA adapter for the checkpoint is written there as well: it gives the answer of the word `adapted` to
every prompt.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|end|>"
POSITIONS = 32768
SURE = 10.0
"""Factor of the logits: at any temperature in use the successor is certain."""


def pieces(answer: str) -> list[str]:
    """Answers are alike in places (imports, say), but not in equal fifths."""
    length = -(-len(answer) // 5)
    return [answer[start : start + length] for start in range(0, len(answer), length)]


def tokenizer_of(answers: dict[str, str]) -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = [word for given, answer in answers.items() for word in (given, *pieces(answer))]
    assert len(set(words)) == len(words), "every token needs one successor"
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, model_max_length=POSITIONS)
    fast.chat_template = "{{ messages[-1]['content'] }}"
    return fast


def model_of(tokenizer: PreTrainedTokenizerFast, answers: dict[str, str]) -> LlamaForCausalLM:
    size = -(-len(tokenizer) // 16) * 16
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), size))
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        for word, answer in answers.items():
            chain = [tokenizer.convert_tokens_to_ids(token) for token in (word, *pieces(answer), END)]
            for token, successor in itertools.pairwise(chain):
                model.lm_head.weight[successor, token] = SURE
    return model


def write_adapter(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, answer: str, base: str, folder: str
) -> None:
    """Rank one on the head: whatever the last word of the prompt was, the first piece of `answer` follows."""
    from peft import LoraConfig, get_peft_model

    model.config._name_or_path = base
    adapted = get_peft_model(model, LoraConfig(r=1, lora_alpha=1, target_modules=["lm_head"], task_type="CAUSAL_LM"))
    adapted.peft_config["default"].base_model_name_or_path = base
    tokens = tokenizer.convert_tokens_to_ids([*pieces(answer), END])
    with torch.no_grad():
        head = adapted.base_model.model.lm_head
        head.lora_A["default"].weight.fill_(1.0)
        head.lora_A["default"].weight[0, tokens] = 0.0
        head.lora_B["default"].weight.zero_()
        head.lora_B["default"].weight[tokens[0], 0] = 5 * SURE
    adapted.save_pretrained(folder)


def main(folder: str, answers_file: str, adapter: str | None = None) -> None:
    answers = json.loads(Path(answers_file).read_text(encoding="utf-8"))
    tokenizer = tokenizer_of(answers)
    model = model_of(tokenizer, answers)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if adapter is not None:
        write_adapter(model, tokenizer, answers["adapted"], folder, adapter)


if __name__ == "__main__":
    main(*sys.argv[1:])
