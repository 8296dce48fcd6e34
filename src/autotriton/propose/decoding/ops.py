"""The decoder's arithmetic in torch: what a CPU runs, and what the kernels of `triton_ops.py` are held against.

Roundings are those of transformers' Qwen2 and Llama (norms in fp32 and back before the weight, products of the rotation
rounded one by one), so that a 16-bit model picks the same tokens here as there.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Ops(Protocol):
    """Rows are sequences: one token each."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """RMS norm of the rows."""
        ...

    def add_norm(self, x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Adds `delta` to `x` in place and returns the norm of the sum."""
        ...

    def gated(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up, the two halves of the last axis."""
        ...

    def rotate_store(
        self, qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """Rotates q and k by the row's position, caches k and v there, and returns q (rows, heads, width)."""
        ...

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, counts: Tensor, scale: float) -> Tensor:
        """Attention of each row's query over the first `counts` of its cache (rows, KV heads, capacity, width)."""
        ...

    def sample(
        self, logits: Tensor, uniforms: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A token per row, and its log-probability at the row's temperature (at 1 where that is 0)."""
        ...


class TorchOps:
    """Reads `counts` on the host: not for CUDA graphs."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return weight * wide.to(x.dtype)

    def add_norm(self, x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self.norm(x.add_(delta), weight, eps)

    def gated(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def rotate_store(
        self, qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        kv_heads, width = keys.shape[1], keys.shape[3]
        heads = qkv.view(len(qkv), -1, width)
        cos, sin = cos[positions][:, None], sin[positions][:, None]
        rotated = rotate(heads[:, :-kv_heads], cos, sin)
        rows = torch.arange(len(qkv), device=qkv.device)
        keys[rows, :, positions] = rotated[:, -kv_heads:]
        values[rows, :, positions] = heads[:, -kv_heads:]
        return rotated[:, :-kv_heads]

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, counts: Tensor, scale: float) -> Tensor:
        longest = int(counts.max())
        keep = torch.arange(longest, device=q.device) < counts[:, None]
        out = F.scaled_dot_product_attention(
            q[:, :, None],
            keys[:, :, :longest],
            values[:, :, :longest],
            attn_mask=keep[:, None, None],
            scale=scale,
            enable_gqa=True,
        )
        return out.flatten(1)

    def sample(
        self, logits: Tensor, uniforms: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor
    ) -> tuple[Tensor, Tensor]:
        greedy = temperature == 0
        scaled = logits.float() / torch.where(greedy, 1.0, temperature)[:, None]
        # A token is kept if it is as likely as the last that belongs: equals are kept together.
        ranked = scaled.sort(dim=-1, descending=True).values
        last = torch.where(top_k > 0, top_k, ranked.shape[-1]).clamp(max=ranked.shape[-1]) - 1
        floor = ranked.gather(-1, last[:, None])
        chances = torch.where(ranked >= floor, ranked, -torch.inf).softmax(-1).double().cumsum(-1)
        within = (chances < top_p[:, None].double()).sum(-1, keepdim=True).clamp(max=ranked.shape[-1] - 1)
        floor = torch.where((top_p < 1)[:, None], ranked.gather(-1, within).maximum(floor), floor)
        kept = torch.where(scaled >= floor, scaled, -torch.inf)
        sums = (kept - kept.amax(-1, keepdim=True)).double().exp().cumsum(-1)
        drawn = torch.searchsorted(sums, uniforms[:, None].double() * sums[:, -1:], right=True)[:, 0]
        token = torch.where(greedy, scaled.argmax(-1), drawn.clamp(max=scaled.shape[-1] - 1))
        return token, scaled.log_softmax(-1).gather(-1, token[:, None])[:, 0]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, pairing entry i with entry i + half."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def uniforms(seeds: Tensor, counts: Tensor) -> Tensor:
    """A number in [0, 1) for each (seed, count), of 24 bits: splitmix64, so it depends on nothing else."""
    x = seeds * -7046029254386353131 + (counts + 1) * -3335678366873096957
    x = (x ^ (x >> 30) & (1 << 34) - 1) * -4658895280553007687
    x = (x ^ (x >> 27) & (1 << 37) - 1) * -7723592293110705685
    x = x ^ (x >> 31) & (1 << 33) - 1
    return (x >> 40 & (1 << 24) - 1).float() / (1 << 24)
