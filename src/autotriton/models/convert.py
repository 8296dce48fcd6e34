"""A GGUF file as an ordinary checkpoint folder: dequantised bf16 weights, config, tokenizer and chat template.

Covers what llama.cpp calls `llama` and `qwen2`. The weights are those of the quantised file, no better: only the form
changes. One shard is in memory at a time.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotriton.errors import UsageError
from autotriton.models import record, tokenizer
from autotriton.models.files import Progress, appearing, refuse_taken, require, sha256_of, silent
from autotriton.models.record import ModelRecord

_SHARD_BYTES = 1 << 30
_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_TIED_WIDTH = 2048
"""Qwen2.5 up to 3B (width 2048) is published with tied embeddings; its GGUF files hold two copies all the same."""


class Gguf:
    """An open GGUF file."""

    def __init__(self, path: Path) -> None:
        require("gguf", what="reading a GGUF file")
        gguf: Any = importlib.import_module("gguf")
        try:
            self._reader = gguf.GGUFReader(path)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint="check the path") from None
        except (ValueError, IndexError, KeyError) as error:
            raise UsageError(f"{path} is no GGUF file, or is cut off: {error}", hint="fetch it again") from None
        self.path = path
        self.architecture = str(self.field("general.architecture"))
        if self.architecture not in _ARCHITECTURES:
            known = ", ".join(_ARCHITECTURES)
            raise UsageError(f"{path} holds a {self.architecture} model", hint=f"what can be converted: {known}")
        self.tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def field(self, name: str, default: Any = None) -> Any:
        field = self._reader.fields.get(name)
        return default if field is None else field.contents()

    def own(self, name: str, default: Any = None) -> Any:
        """A field of the architecture's own."""
        return self.field(f"{self.architecture}.{name}", default)

    @property
    def tied(self) -> bool:
        return "output.weight" not in self.tensors or (
            self.architecture == "qwen2" and self.own("embedding_length") <= _TIED_WIDTH
        )


def convert(
    file: Path,
    target: Path,
    progress: Progress = silent,
    *,
    name: str | None = None,
    origin: str = "gguf",
    sha256: str | None = None,
) -> ModelRecord:
    """The checkpoint folder of a GGUF file; it appears when it is complete."""
    require("gguf", "transformers", "safetensors", "torch", what="converting a GGUF file")
    if not file.is_file():
        raise UsageError(f"{file} does not exist", hint="name a .gguf file")
    refuse_taken(target)
    source = Gguf(file)
    with appearing(target) as folder:
        _write_config(source, folder)
        _write_weights(source, folder, progress)
        tokenizer.write(source, folder)
        made = ModelRecord(
            name=name or file.stem, origin=origin, source=file.name, source_sha256=sha256 or sha256_of(file)
        )
        record.write(folder, made)
    return record.read(target) or made


def _write_config(source: Gguf, folder: Path) -> None:
    transformers: Any = importlib.import_module("transformers")
    heads = int(source.own("attention.head_count"))
    eos = source.field("tokenizer.ggml.eos_token_id")
    special = {
        "bos_token_id": source.field("tokenizer.ggml.bos_token_id"),
        "pad_token_id": source.field("tokenizer.ggml.padding_token_id"),
    }
    kind = getattr(transformers, _ARCHITECTURES[source.architecture]).config_class
    config = kind(
        # The rows of the matrix, which may be more than the tokenizer has words.
        vocab_size=int(source.tensors["token_embd.weight"].shape[1]),
        hidden_size=source.own("embedding_length"),
        intermediate_size=source.own("feed_forward_length"),
        num_hidden_layers=source.own("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=source.own("attention.head_count_kv", heads),
        # Stored as a 32-bit float: 9.99999997e-07 was 1e-06.
        rms_norm_eps=float(f"{source.own('attention.layer_norm_rms_epsilon'):.6g}"),
        max_position_embeddings=source.own("context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": float(source.own("rope.freq_base", 10000.0))},
        tie_word_embeddings=source.tied,
        eos_token_id=eos,
        **special,
    )
    config.architectures = [_ARCHITECTURES[source.architecture]]
    config.dtype = "bfloat16"
    config.save_pretrained(folder)
    # A chat ends with its own token; text outside of one with <|endoftext|>. Either is the end.
    ends = [eos, *(number for number in tokenizer.ends(source) if number != eos)]
    transformers.GenerationConfig(eos_token_id=ends, **special).save_pretrained(folder)


def _write_weights(source: Gguf, folder: Path, progress: Progress) -> None:
    """Shards of about a gigabyte and their index, named when their number is known."""
    save_file: Any = importlib.import_module("safetensors.torch").save_file
    shards: list[list[str]] = []
    held: dict[str, Any] = {}
    size = total = 0

    def flush() -> None:
        nonlocal size
        file = folder / f"shard-{len(shards)}"
        save_file(held, file, metadata={"format": "pt"})
        file.chmod(0o644)  # it is written for its owner only
        shards.append(list(held))
        held.clear()
        size = 0

    for name, weight in _weights(source, progress):
        held[name] = weight
        size += weight.nbytes
        total += weight.nbytes
        if size >= _SHARD_BYTES:
            flush()
    if held:
        flush()
    if len(shards) == 1:
        (folder / "shard-0").rename(folder / "model.safetensors")
        return
    where: dict[str, str] = {}
    for number, names in enumerate(shards):
        file = f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors"
        (folder / f"shard-{number}").rename(folder / file)
        where |= dict.fromkeys(names, file)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=1)
    (folder / "model.safetensors.index.json").write_text(text + "\n", encoding="utf-8")


def _weights(source: Gguf, progress: Progress) -> Iterator[tuple[str, Any]]:
    tensors = dict(source.tensors)
    if source.tied and "output.weight" in tensors:
        # The copy kept for the output has more bits (Q6_K) than the one for the input (Q4_K).
        tensors["token_embd.weight"] = tensors.pop("output.weight")
    # Among the frequencies llama.cpp stores are those of `rope_freqs`, which the config has.
    tensors.pop("rope_freqs.weight", None)
    total = sum(int(tensor.n_bytes) for tensor in tensors.values())
    done = 0
    for name, tensor in tensors.items():
        progress("converting", done, total)
        yield _name(name), _dequantised(source, name, tensor)
        done += int(tensor.n_bytes)
    progress("converting", total, total)


def _dequantised(source: Gguf, name: str, tensor: Any) -> Any:
    import torch

    quants: Any = importlib.import_module("gguf.quants")
    try:
        weight = quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:
        raise UsageError(f"{name} is stored as {tensor.tensor_type.name}, which cannot be dequantised") from None
    weight = weight.reshape([int(size) for size in reversed(tensor.shape)])
    if source.architecture == "llama" and re.search(r"attn_[qk]\.", name):
        count = source.own("attention.head_count_kv") if "attn_k." in name else source.own("attention.head_count")
        weight = _unpermuted(weight, int(count))
    return torch.from_numpy(weight.copy()).to(torch.bfloat16)


def _unpermuted(weight: Any, heads: int) -> Any:
    """llama.cpp pairs neighbouring rows for its rotation; transformers pairs row i with row i + half."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in _NAMES:
        raise UsageError(f"the tensor {name} has no place in such a model", hint="it may need a newer converter")
    return f"model.layers.{match[1]}.{_NAMES[match[2]]}.{match[3]}"
