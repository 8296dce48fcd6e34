"""The decoder's arithmetic by our own kernels: what a GPU runs. Nothing waits for the device, so it can be captured."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from autotriton.propose.decoding.kernels import attention, rows, sampling

_HALVINGS = 24
"""Of the interval of limits; 40 temperatures / 2^24 is below the distance of neighbouring logits in fp32."""
_PROGRAMS_PER_SM = 4
"""Sequences differ in length; with a few programs per multiprocessor the long ones don't run alone at the end."""
_SMS_UNSEEN = 132


class TritonOps:
    def __init__(self, splits: int | None = None) -> None:
        self.splits = splits
        """Programs a sequence's cache is split among; chosen by the batch if None. A power of two."""

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._norm(x, None, weight, eps)

    def add_norm(self, x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._norm(x, delta, weight, eps)

    def _norm(self, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        count, width = x.shape
        out = torch.empty_like(x)
        block = _power(width)
        _run(
            rows.norm_kernel,
            (count,),
            *(x, x if delta is None else delta, weight, out, width, eps),
            HAS_DELTA=delta is not None,
            BLOCK=block,
            num_warps=8 if block >= 2048 else 4,
        )
        return out

    def gated(self, gate_up: Tensor) -> Tensor:
        count, width = gate_up.shape[0], gate_up.shape[1] // 2
        out = gate_up.new_empty((count, width))
        _run(rows.gated_kernel, (count, -(-width // 1024)), gate_up, out, width, BLOCK=1024)
        return out

    def rotate_store(
        self, qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        kv_heads, width = keys.shape[1], keys.shape[3]
        heads = qkv.shape[1] // width - 2 * kv_heads
        q = qkv.new_empty((len(qkv), heads, width))
        _run(
            rows.rotate_store_kernel,
            (len(qkv), heads + 2 * kv_heads),
            *(qkv, cos, sin, positions, q, keys, values, keys.stride(0), keys.stride(1)),
            HEADS=heads,
            KV_HEADS=kv_heads,
            HALF=width // 2,
            num_warps=1,
        )
        return q

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, counts: Tensor, scale: float) -> Tensor:
        count, heads, width = q.shape
        kv_heads, capacity = keys.shape[1], keys.shape[2]
        splits = self.splits or _splits(count * kv_heads, capacity, q.device)
        out = q.new_empty((count, heads * width))
        wanted = (count * heads * splits, width) if splits > 1 else (1, 1)
        parts = torch.empty(wanted, dtype=torch.float32, device=q.device)
        stats = torch.empty((wanted[0], 2), dtype=torch.float32, device=q.device)
        group = heads // kv_heads
        _run(
            attention.attend_kernel,
            (count, kv_heads, splits),
            *(q, keys, values, counts, out, parts, stats, scale * math.log2(math.e), keys.stride(0), keys.stride(1)),
            KV_HEADS=kv_heads,
            GROUP=group,
            WIDTH=width,
            SPLITS=splits,
            BLOCK_G=max(16, _power(group)),  # the least a matrix product takes
            BLOCK_N=64 if q.dtype != torch.float32 else 32,
            num_warps=4,
            num_stages=3 if q.dtype != torch.float32 and width <= 128 else 2,
        )
        if splits > 1:
            _run(attention.combine_kernel, (count * heads,), parts, stats, out, WIDTH=width, SPLITS=splits, num_warps=2)
        return out

    def sample(
        self, logits: Tensor, uniforms: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor
    ) -> tuple[Tensor, Tensor]:
        count, width = logits.shape
        token = torch.empty(count, dtype=torch.int64, device=logits.device)
        logprob = torch.empty(count, dtype=torch.float32, device=logits.device)
        _run(
            sampling.sample_kernel,
            (count,),
            *(logits, uniforms, temperature, top_p, top_k, token, logprob, width),
            HALVINGS=_HALVINGS,
            BLOCK=min(4096, _power(width)),
            num_warps=16,
        )
        return token, logprob


def _run(kernel: Any, grid: tuple[int, ...], *arguments: Any, **settings: Any) -> None:
    kernel[grid](*arguments, **settings)


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _splits(programs: int, capacity: int, device: torch.device) -> int:
    """As many as fill the device, but none of fewer than 128 entries."""
    sms = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else _SMS_UNSEEN
    wanted = max(1, -(-sms * _PROGRAMS_PER_SM // programs))
    return min(_power(wanted), max(1, 1 << (capacity // 128).bit_length() - 1), 32)
