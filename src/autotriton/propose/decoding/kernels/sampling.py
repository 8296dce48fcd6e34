# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""One token per row of logits, without sorting them.

The limits of top-k and top-p are values: a token is kept if its logit is at least the limit. Each is found by halving
an interval, which reads the row (it stays in the L2 cache) some twenty times; sorting 152,000 logits costs far more.
"""

import triton
import triton.language as tl


@triton.jit
def sample_kernel(
    logits_ptr,
    uniforms_ptr,
    temperature_ptr,
    top_p_ptr,
    top_k_ptr,
    token_ptr,
    logprob_ptr,
    n_cols,
    HALVINGS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program per row. Temperature 0 takes the first of the largest logits."""
    row = tl.program_id(0)
    logits_ptr += row.to(tl.int64) * n_cols
    temperature = tl.load(temperature_ptr + row)
    divisor = tl.where(temperature > 0, temperature, 1.0)
    cols = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    lowest = tl.full((BLOCK,), float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n_cols, BLOCK):
        keep = start + cols < n_cols
        x = tl.load(logits_ptr + start + cols, mask=keep, other=float("-inf")).to(tl.float32)
        where = tl.where(x > highest, start + cols, where)
        highest = tl.maximum(highest, x)
        lowest = tl.minimum(lowest, tl.where(keep, x, float("inf")))
    top = tl.max(highest, axis=0)
    bottom = tl.min(lowest, axis=0)
    token = tl.min(tl.where(highest == top, where, n_cols - 1), axis=0)
    everything = _mass(logits_ptr, n_cols, top, divisor, float("-inf"), BLOCK)
    if temperature > 0:
        limit = bottom
        top_k = tl.load(top_k_ptr + row)
        if (top_k > 0) & (top_k < n_cols):
            high = top
            for _ in range(HALVINGS):
                middle = 0.5 * (limit + high)
                enough = _count(logits_ptr, n_cols, middle, BLOCK) >= top_k
                limit = tl.where(enough, middle, limit)
                high = tl.where(enough, high, middle)
        top_p = tl.load(top_p_ptr + row)
        if top_p < 1.0:
            wanted = top_p * _mass(logits_ptr, n_cols, top, divisor, limit, BLOCK)
            # Beyond 40 temperatures below the top all tokens of any vocabulary weigh nothing.
            limit = tl.maximum(limit, top - 40.0 * divisor)
            high = top
            for _ in range(HALVINGS):
                middle = 0.5 * (limit + high)
                enough = _mass(logits_ptr, n_cols, top, divisor, middle, BLOCK) >= wanted
                limit = tl.where(enough, middle, limit)
                high = tl.where(enough, high, middle)
        aim = tl.load(uniforms_ptr + row) * _mass(logits_ptr, n_cols, top, divisor, limit, BLOCK)
        token = _reached(logits_ptr, n_cols, top, divisor, limit, aim, BLOCK)
    chosen = tl.load(logits_ptr + token).to(tl.float32)
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(logprob_ptr + row, (chosen - top) / divisor - tl.log(everything))


@triton.jit
def _weights(logits_ptr, n_cols, start, top, divisor, limit, BLOCK: tl.constexpr):
    cols = start + tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
    return tl.where(x >= limit, tl.exp((x - top) / divisor), 0.0)


@triton.jit
def _mass(logits_ptr, n_cols, top, divisor, limit, BLOCK: tl.constexpr):
    """Sum of exp((x - top) / divisor) over the logits that reach the limit."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        total += _weights(logits_ptr, n_cols, start, top, divisor, limit, BLOCK)
    return tl.sum(total, axis=0)


@triton.jit
def _count(logits_ptr, n_cols, limit, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        keep = cols < n_cols
        x = tl.load(logits_ptr + cols, mask=keep, other=float("-inf")).to(tl.float32)
        total += ((x >= limit) & keep).to(tl.int32)
    return tl.sum(total, axis=0)


@triton.jit
def _reached(logits_ptr, n_cols, top, divisor, limit, aim, BLOCK: tl.constexpr):
    """The first token at which the sum of weights exceeds `aim`; rounding may leave none: then the last kept."""
    cols = tl.arange(0, BLOCK)
    before = aim * 0.0
    first = n_cols
    last = 0
    for start in range(0, n_cols, BLOCK):
        weights = _weights(logits_ptr, n_cols, start, top, divisor, limit, BLOCK)
        sums = before + tl.cumsum(weights, axis=0)
        first = tl.minimum(first, tl.min(tl.where((sums > aim) & (weights > 0), start + cols, n_cols), axis=0))
        last = tl.maximum(last, tl.max(tl.where(weights > 0, start + cols, 0), axis=0))
        before += tl.sum(weights, axis=0)
    return tl.where(first < n_cols, first, last)
