"""A GGUF file as an ordinary checkpoint folder: dequantised bf16 weights, config, tokenizer and chat template.

Covers what llama.cpp calls `llama` and `qwen2`. The weights are those of the quantised file, no better: only the form
changes. One shard is in memory at a time.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import UsageError
from autotriton.models import record, tokenizer
from autotriton.models.files import Progress, appearing, refuse_taken, require, sha256_of, silent
from autotriton.models.record import ModelRecord

_SHARD_BYTES = 1 << 30
_BYTES = 2
"""Of a bf16 number."""
_PROCESSES = 16
_BLOCK_ELEMENTS = 1 << 22
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


@dataclass(frozen=True)
class _Block:
    """Rows of a tensor that are dequantised in one go, and where they lie: a process needs nothing else."""

    tensor: str
    kind: Any
    """How gguf says it is quantised."""
    path: Path
    offset: int
    dtype: Any
    shape: tuple[int, ...]


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
    tensors = _wanted(source)
    shards = list(_shards(tensors))
    total = sum(int(tensor.n_bytes) for tensor in tensors.values())
    done = 0
    where: dict[str, str] = {}
    with _pool() as pool:
        for number, names in enumerate(shards, start=1):
            held: dict[str, Any] = {}
            for name, weight in _dequantised(source, {name: tensors[name] for name in names}, pool):
                held[_name(name)] = weight
                done += int(tensors[name].n_bytes)
                progress("converting", done, total)
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else "model.safetensors"
            save_file(held, folder / file, metadata={"format": "pt"})
            (folder / file).chmod(0o644)  # it is written for its owner only
            where |= dict.fromkeys(held, file)
    if len(shards) > 1:
        size = sum(_BYTES * int(tensor.n_elements) for tensor in tensors.values())
        text = json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1)
        (folder / "model.safetensors.index.json").write_text(text + "\n", encoding="utf-8")


def _wanted(source: Gguf) -> dict[str, Any]:
    """The tensors a checkpoint has, by their names in the file."""
    tensors = dict(source.tensors)
    if source.tied and "output.weight" in tensors:
        # The copy kept for the output has more bits (Q6_K) than the one for the input (Q4_K).
        tensors["token_embd.weight"] = tensors.pop("output.weight")
    # Among the frequencies llama.cpp stores are those of `rope_freqs`, which the config has.
    tensors.pop("rope_freqs.weight", None)
    return tensors


def _shards(tensors: dict[str, Any]) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, tensor in tensors.items():
        names.append(name)
        size += _BYTES * int(tensor.n_elements)
        if size >= _SHARD_BYTES:
            yield names
            names, size = [], 0
    if names:
        yield names


def _pool() -> ProcessPoolExecutor:
    """Processes, as dequantising is mostly Python; forked, so that none of them imports torch again."""
    return ProcessPoolExecutor(min(os.cpu_count() or 1, _PROCESSES), multiprocessing.get_context("fork"))


def _dequantised(source: Gguf, tensors: dict[str, Any], pool: ProcessPoolExecutor) -> Iterator[tuple[str, Any]]:
    """In bf16, in order; rows of large tensors are shared among the processes."""
    import torch

    blocks = {name: _blocks(source.path, tensor) for name, tensor in tensors.items()}
    done = pool.map(_bits, [block for several in blocks.values() for block in several])
    for name, tensor in tensors.items():
        parts = [torch.from_numpy(next(done)).view(torch.bfloat16) for _ in blocks[name]]
        weight = torch.cat(parts).reshape([int(size) for size in reversed(tensor.shape)])
        if source.architecture == "llama" and re.search(r"attn_[qk]\.", name):
            count = source.own("attention.head_count_kv") if "attn_k." in name else source.own("attention.head_count")
            weight = _unpermuted(weight, int(count)).contiguous()
        yield name, weight


def _blocks(path: Path, tensor: Any) -> list[_Block]:
    data = tensor.data
    rows, row_bytes = len(data), data.strides[0]
    step = max(1, _BLOCK_ELEMENTS * rows // max(1, int(tensor.n_elements)))
    return [
        _Block(
            tensor=tensor.name,
            kind=tensor.tensor_type,
            path=path,
            offset=int(tensor.data_offset) + first * row_bytes,
            dtype=data.dtype,
            shape=(min(step, rows - first), *data.shape[1:]),
        )
        for first in range(0, rows, step)
    ]


def _bits(block: _Block) -> Any:
    """In a process of the pool: the rows as the bits of bf16 numbers."""
    import numpy
    import torch

    quants: Any = importlib.import_module("gguf.quants")
    torch.set_num_threads(1)
    stored = numpy.memmap(block.path, block.dtype, "r", block.offset, block.shape)
    try:
        weight = quants.dequantize(stored, block.kind)
    except NotImplementedError:
        raise UsageError(f"{block.tensor} is stored as {block.kind.name}, which cannot be dequantised") from None
    return torch.from_numpy(weight.copy()).to(torch.bfloat16).view(torch.int16).numpy()


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
