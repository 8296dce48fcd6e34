"""A tiny Llama with a byte-level tokenizer, and rows it can be trained on in seconds."""

from __future__ import annotations

from pathlib import Path

from autotriton.data.rows import Example, TaskRow

TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.rand(16, 32) + 0.5]


def get_init_inputs():
    return []
"""
CODE = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, {value}, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
OPERATIONS = {"exp": "tl.exp(x)", "sqrt": "tl.sqrt(x)", "abs": "tl.abs(x)", "neg": "-x"}


def rows() -> list[TaskRow]:
    return [
        TaskRow(
            id=name,
            prompt=f"Write {name}.",
            source=TASK.format(expression=f"torch.{name}(x)"),
            origin="test",
            licence="Apache-2.0",
        )
        for name in OPERATIONS
    ]


def examples() -> list[Example]:
    made: list[Example] = []
    for row in rows():
        code = CODE.format(value=OPERATIONS[row.id])
        answer = f"One element each.\n\n```python\n{code}```"
        made.append(Example(**row.model_dump(), completion=answer, code=code, route="test"))
    return made


def write_model(folder: Path) -> None:
    """Random weights; the tokenizer knows bytes and a few pieces of the answers."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<pad>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator([example.completion for example in examples()] * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<|im_end|>")
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
