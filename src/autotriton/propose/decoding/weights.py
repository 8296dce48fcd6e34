"""A transformers module's weights in the decoder's form: q, k, v in one matrix, gate and up in another.

The module may be in training: `refresh` takes over its present weights, adapters included, at the same addresses, so
captured graphs stay valid. With `share`, the module's own parameters become views of the joined matrices instead: no
second copy, and nothing to refresh; for a module that only generates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_CLASSES = ("Qwen2ForCausalLM", "LlamaForCausalLM")
_ROPES = ("default", "linear", "llama3", "yarn")
"""Those whose angles do not depend on how long the sequence has become."""
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Layer:
    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True)
class Geometry:
    heads: int
    kv_heads: int
    width: int
    """Of a head."""
    eps: float
    scale: float


def causal_of(model: Any) -> Any:
    """The causal language model inside an adapter's wrapper, or the model itself."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def unsupported(model: Any) -> str | None:
    """Why the decoder cannot run this model, in a few words; None if it can."""
    causal = causal_of(model)
    config = causal.config
    if type(causal).__name__ not in _CLASSES:
        return f"{type(causal).__name__} is none of {', '.join(_CLASSES)}"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act}"
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        return "it attends to a sliding window"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in _ROPES:
        return f"its position embedding is {rope}"
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        return "its adapter learns prompts"
    for module in (causal.model.embed_tokens, causal.lm_head, *_linears(causal.model.layers[0])):
        if reason := _not_plain(module):
            return reason
    return None


def _not_plain(module: Any) -> str | None:
    adapted = hasattr(module, "base_layer")
    if hasattr(module, "modules_to_save") or (adapted and not hasattr(module, "get_delta_weight")):
        return f"its adapter replaces a {type(module).__name__}"
    if adapted and any(getattr(module, "use_dora", {}).values()):
        return "its adapter is a DoRA"
    weight = getattr(module.base_layer if adapted else module, "weight", None)
    if weight is None or weight.dtype not in _DTYPES or weight.ndim != 2:
        return "its weights are quantised"
    return None


def _linears(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    return [
        *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
        *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
    ]


class Weights:
    """Everything the forward pass reads."""

    @torch.no_grad()
    def __init__(self, model: Any, dtype: torch.dtype | None = None, *, share: bool = False) -> None:
        if reason := unsupported(model):
            raise ValueError(f"the decoder does not take this model: {reason}")
        causal = causal_of(model)
        embedding, head = causal.model.embed_tokens, causal.lm_head
        self.dtype = dtype or _base(head).weight.dtype
        self.device = _base(head).weight.device
        self._share = share
        self._copies: list[tuple[Tensor, list[Any], str]] = []
        config = causal.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.geometry = Geometry(
            config.num_attention_heads, config.num_key_value_heads, width, config.rms_norm_eps, width**-0.5
        )
        self.embedding = self._joined([embedding])
        plain = _base(head) is head and _base(embedding) is embedding
        self.head = self.embedding if plain and head.weight is embedding.weight else self._joined([head])
        self.norm = self._joined([causal.model.norm])
        self.layers = [self._layer(layer) for layer in causal.model.layers]
        self._rotary = causal.model.rotary_emb

    @torch.no_grad()
    def refresh(self) -> None:
        """Takes over the module's weights as they are now."""
        for joined, modules, name in self._copies:
            start = 0
            for module in modules:
                part = _effective(module, name)
                assert part is not None
                joined[start : start + len(part)].copy_(part)
                start += len(part)

    @torch.no_grad()
    def rotations(self, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the first `count` positions, rounded as the module rounds them."""
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        cos, sin = self._rotary(like, torch.arange(count, device=self.device)[None])
        return cos[0].contiguous(), sin[0].contiguous()

    def _layer(self, layer: Any) -> Layer:
        q, k, v, out, gate, up, down = _linears(layer)
        return Layer(
            norm=self._joined([layer.input_layernorm]),
            qkv=self._joined([q, k, v]),
            qkv_bias=self._joined_biases([q, k, v]),
            out=self._joined([out]),
            out_bias=self._joined_biases([out]),
            mlp_norm=self._joined([layer.post_attention_layernorm]),
            gate_up=self._joined([gate, up]),
            gate_up_bias=self._joined_biases([gate, up]),
            down=self._joined([down]),
            down_bias=self._joined_biases([down]),
        )

    def _joined_biases(self, modules: Sequence[Any]) -> Tensor | None:
        return self._joined(modules, "bias") if _base(modules[0]).bias is not None else None

    def _joined(self, modules: Sequence[Any], name: str = "weight") -> Tensor:
        plain = all(_base(module) is module for module in modules)
        parts = [_effective(module, name) for module in modules]
        tensors = [part.detach() for part in parts if part is not None]
        assert len(tensors) == len(modules), "some have a bias and some have none"
        if plain and len(tensors) == 1 and tensors[0].dtype == self.dtype:
            return tensors[0]
        joined = torch.cat([tensor.to(self.dtype) for tensor in tensors])
        if plain and self._share and tensors[0].dtype == self.dtype:
            for module, part in zip(modules, torch.split(joined, [len(tensor) for tensor in tensors]), strict=True):
                getattr(module, name).data = part
        else:
            self._copies.append((joined, list(modules), name))
        return joined


def _base(module: Any) -> Any:
    return getattr(module, "base_layer", module)


def _effective(module: Any, name: str) -> Tensor | None:
    """The parameter, with what active adapters add to it."""
    tensor: Tensor | None = getattr(_base(module), name)
    if tensor is None or name != "weight" or _base(module) is module:
        return tensor
    if module.merged or module.disable_adapters:
        return tensor
    for adapter in module.active_adapters:
        if adapter in module.lora_A or adapter in getattr(module, "lora_embedding_A", {}):
            tensor = tensor.float() + module.get_delta_weight(adapter).float()
    return tensor
