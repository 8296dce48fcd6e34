"""The tokenizer inside a GGUF file, as files of a checkpoint folder: byte-level BPE with its own splitting rule."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotriton.errors import UsageError

if TYPE_CHECKING:
    from autotriton.models.convert import Gguf

_CONTROL, _USER = 3, 4
"""llama.cpp's token types: never part of ordinary text, and words added whole."""
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_END_WORDS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>")


def ends(source: Gguf) -> list[int]:
    """Tokens that end an answer, by their usual words."""
    words = source.field("tokenizer.ggml.tokens")
    kinds = source.field("tokenizer.ggml.token_type")
    return [
        number
        for number, (word, kind) in enumerate(zip(words, kinds, strict=True))
        if kind == _CONTROL and word in _END_WORDS
    ]


def write(source: Gguf, folder: Path) -> None:
    transformers: Any = importlib.import_module("transformers")
    words = source.field("tokenizer.ggml.tokens")

    def word(name: str) -> str | None:
        number = source.field(f"tokenizer.ggml.{name}_token_id")
        return None if number is None else words[number]

    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_bpe(source, words),
        bos_token=word("bos"),
        eos_token=word("eos"),
        pad_token=word("padding"),
        clean_up_tokenization_spaces=False,
        model_max_length=int(source.own("context_length")),
    )
    if template := source.field("tokenizer.chat_template"):
        fast.chat_template = template
    fast.save_pretrained(folder)


def _bpe(source: Gguf, words: list[str]) -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
    kind, rule = source.field("tokenizer.ggml.model"), source.field("tokenizer.ggml.pre")
    if kind != "gpt2" or rule not in _RULES:
        raise UsageError(
            f"its tokenizer ({kind}, {rule}) cannot be converted", hint=f"known: gpt2 with {', '.join(_RULES)}"
        )
    merges = [tuple(pair.split(" ")) for pair in source.field("tokenizer.ggml.merges")]
    vocabulary = {word: number for number, word in enumerate(words)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = _RULES[rule](tokenizers)
    if rule == "qwen2":
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    for number, type_ in enumerate(source.field("tokenizer.ggml.token_type")):
        if type_ in (_CONTROL, _USER):
            control = type_ == _CONTROL
            token = tokenizers.AddedToken(words[number], special=control, normalized=False)
            made.add_special_tokens([token]) if control else made.add_tokens([token])
    return made


def _split(pattern: str) -> Any:
    def rule(tokenizers: Any) -> Any:
        pre = tokenizers.pre_tokenizers
        return pre.Sequence(
            [
                pre.Split(tokenizers.Regex(pattern), "isolated"),
                pre.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )

    return rule


def _digits(tokenizers: Any) -> Any:
    pre = tokenizers.pre_tokenizers
    return pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=True)])


_RULES = {"qwen2": _split(_QWEN2), "llama-bpe": _split(_LLAMA3), "smollm": _digits}
