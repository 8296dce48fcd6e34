"""The forward pass of Qwen2- and Llama-type models: whole prompts at once, then one token per sequence and step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from autotriton.propose.decoding.ops import Ops, rotate
from autotriton.propose.decoding.weights import Layer, Weights


@dataclass(frozen=True)
class Cache:
    """Keys and values, (layers, slots, KV heads, capacity, width), and the rotations of all positions."""

    keys: Tensor
    values: Tensor
    cos: Tensor
    sin: Tensor

    @property
    def slots(self) -> int:
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]


def make_cache(weights: Weights, slots: int, capacity: int) -> Cache:
    shape = (len(weights.layers), slots, weights.geometry.kv_heads, capacity, weights.geometry.width)
    # Zeros, since masked entries are multiplied by zero: what lay there before might be NaN.
    keys = torch.zeros(shape, dtype=weights.dtype, device=weights.device)
    return Cache(keys, torch.zeros_like(keys), *weights.rotations(capacity))


def cache_bytes(weights: Weights, slots: int, capacity: int) -> int:
    shape = weights.geometry
    per_token = 2 * len(weights.layers) * shape.kv_heads * shape.width * weights.dtype.itemsize
    return per_token * slots * capacity


def prefill(
    weights: Weights, ops: Ops, cache: Cache, tokens: Tensor, lengths: Tensor, rows: Tensor, slots: Tensor
) -> Tensor:
    """Reads prompts, padded on the right, and returns the logits after each.

    Row `rows[i]` goes into the cache of slot `slots[i]`: equal prompts are read once. What the padding leaves in the
    cache lies beyond the sequence's length and is overwritten before it is read.
    """
    shape = weights.geometry
    count, length = tokens.shape
    cos, sin = cache.cos[:length, None], cache.sin[:length, None]
    x = F.embedding(tokens, weights.embedding).flatten(0, 1)
    h = ops.norm(x, weights.layers[0].norm, shape.eps)
    for number, layer in enumerate(weights.layers):
        heads = F.linear(h, layer.qkv, layer.qkv_bias).view(count, length, -1, shape.width)
        q, k, v = torch.split(heads, [shape.heads, shape.kv_heads, shape.kv_heads], dim=2)
        q, k, v = (part.transpose(1, 2) for part in (rotate(q, cos, sin), rotate(k, cos, sin), v))
        keys, values = cache.keys[number], cache.values[number]
        keys[slots, :, :length] = k[rows]
        values[slots, :, :length] = v[rows]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=shape.scale, enable_gqa=True)
        h = _rest(weights, ops, number, layer, x, mixed.transpose(1, 2).flatten(2).flatten(0, 1))
    last = torch.arange(count, device=tokens.device) * length + lengths - 1
    return F.linear(h[last], weights.head)[rows]


def step(weights: Weights, ops: Ops, cache: Cache, tokens: Tensor, positions: Tensor, counts: Tensor) -> Tensor:
    """Puts one token per slot, of the first `len(tokens)` slots, at its position; returns the logits of the next."""
    shape, rows = weights.geometry, len(tokens)
    x = F.embedding(tokens, weights.embedding)
    h = ops.norm(x, weights.layers[0].norm, shape.eps)
    for number, layer in enumerate(weights.layers):
        qkv = F.linear(h, layer.qkv, layer.qkv_bias)
        keys, values = cache.keys[number, :rows], cache.values[number, :rows]
        q = ops.rotate_store(qkv, cache.cos, cache.sin, positions, keys, values)
        mixed = ops.attend(q, keys, values, counts, shape.scale)
        h = _rest(weights, ops, number, layer, x, mixed)
    return F.linear(h, weights.head)


def _rest(weights: Weights, ops: Ops, number: int, layer: Layer, x: Tensor, mixed: Tensor) -> Tensor:
    """What follows attention in a layer, up to the norm of the next; `x` is updated in place."""
    eps = weights.geometry.eps
    h = ops.add_norm(x, F.linear(mixed, layer.out, layer.out_bias), layer.mlp_norm, eps)
    gated = ops.gated(F.linear(h, layer.gate_up, layer.gate_up_bias))
    following = weights.layers[number + 1].norm if number + 1 < len(weights.layers) else weights.norm
    return ops.add_norm(x, F.linear(gated, layer.down, layer.down_bias), following, eps)
