# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Attention of one query per sequence over its cache, for all query heads of a KV head at once.

softmax(q k^T * scale) v, with the sequence split among programs (each reads its own part of K and V once, whatever the
number of query heads) and the parts put together by a second kernel. How much is read depends on the sequence's own
length, not on the longest.
"""

import triton
import triton.language as tl


@triton.jit
def attend_kernel(
    q_ptr,
    keys_ptr,
    values_ptr,
    counts_ptr,
    out_ptr,
    part_ptr,
    stat_ptr,
    log2_scale,
    slot_stride,
    head_stride,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One program per row, KV head and split. `log2_scale` is scale * log2(e): exponentials are powers of two."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.program_id(2)
    count = tl.load(counts_ptr + row).to(tl.int32)
    span = tl.cdiv(tl.cdiv(count, SPLITS), BLOCK_N) * BLOCK_N
    begin = split * span
    end = tl.minimum(begin + span, count)
    group = tl.arange(0, BLOCK_G)
    cols = tl.arange(0, WIDTH)
    heads = row * KV_HEADS * GROUP + head * GROUP + group
    real = group < GROUP
    q = tl.load(q_ptr + heads[:, None] * WIDTH + cols[None, :], mask=real[:, None], other=0.0)
    base = row * slot_stride + head * head_stride
    top = tl.full((BLOCK_G,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_G,), tl.float32)
    mixed = tl.zeros((BLOCK_G, WIDTH), tl.float32)
    for start in range(begin, end, BLOCK_N):
        entries = start + tl.arange(0, BLOCK_N)
        keep = entries < end
        k = tl.load(keys_ptr + base + entries[None, :] * WIDTH + cols[:, None], mask=keep[None, :], other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * log2_scale
        scores = tl.where(keep[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shrink = tl.exp2(top - new_top)
        weights = tl.exp2(scores - new_top[:, None])
        v = tl.load(values_ptr + base + entries[:, None] * WIDTH + cols[None, :], mask=keep[:, None], other=0.0)
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        top = new_top
    if SPLITS == 1:
        target = out_ptr + heads[:, None] * WIDTH + cols[None, :]
        tl.store(target, (mixed / total[:, None]).to(q.dtype), mask=real[:, None])
    else:
        part = heads * SPLITS + split
        tl.store(part_ptr + part[:, None] * WIDTH + cols[None, :], mixed, mask=real[:, None])
        tl.store(stat_ptr + part * 2, top, mask=real)
        tl.store(stat_ptr + part * 2 + 1, total, mask=real)


@triton.jit
def combine_kernel(part_ptr, stat_ptr, out_ptr, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    """One program per row and query head. A split that had nothing to read has a top of -inf, hence no weight."""
    head = tl.program_id(0).to(tl.int64)
    splits = head * SPLITS + tl.arange(0, SPLITS)
    cols = tl.arange(0, WIDTH)
    tops = tl.load(stat_ptr + splits * 2)
    totals = tl.load(stat_ptr + splits * 2 + 1)
    weights = tl.exp2(tops - tl.max(tops, axis=0))
    parts = tl.load(part_ptr + splits[:, None] * WIDTH + cols[None, :])
    mixed = tl.sum(parts * weights[:, None], axis=0) / tl.sum(totals * weights, axis=0)
    tl.store(out_ptr + head * WIDTH + cols, mixed.to(out_ptr.dtype.element_ty))
