"""Text of the kernels that bring images and weights into the layout the packed convolution reads.

Images: channels last, zero padding written out, the channels of each group padded to CP, so that the main loop reads
whole rows of channels and needs no mask for borders. Weights: [output channel, tap, CP], zero where there is none.
fp32 numbers are split into two fp16 numbers on the way (see `split.py`), one scale per image and per output channel.
"""

from __future__ import annotations

_SPLIT_HELPERS = '''\
@triton.jit
def packed_parts(x):
    """x = high + low in fp16, to 22 bits. Infinities and NaN are in `low`: it meets only the other's `high`, so that
    inf * weight is not spoilt by inf * 0."""
    finite = tl.abs(x) < float("inf")
    high = tl.where(finite, x, 0.0).to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    return high, low


@triton.jit
def largest_kernel(
    x_ptr, largest_ptr, C, D, H, W, stride_n, stride_c, stride_d, stride_h, stride_w,
    ROWS: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """largest[n] = max |x[n]| over finite elements, as the bits of a float: their order is that of the numbers."""
    w_tiles = tl.cdiv(W, BLOCK_W)
    row_tiles = tl.cdiv(D * H, ROWS)
    tile = tl.program_id(0)
    w = tile % w_tiles * BLOCK_W + tl.arange(0, BLOCK_W)
    first_row = tile // w_tiles % row_tiles * ROWS
    n = (tile // w_tiles // row_tiles).to(tl.int64)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    offsets = c[:, None].to(tl.int64) * stride_c + w[None, :] * stride_w
    inside = (c < C)[:, None] & (w < W)[None, :]
    best = tl.zeros((BLOCK_C, BLOCK_W), dtype=tl.float32)
    for row in range(first_row, tl.minimum(first_row + ROWS, D * H)):
        start = n * stride_n + (row // H).to(tl.int64) * stride_d + (row % H).to(tl.int64) * stride_h
        best = tl.maximum(best, finite_magnitude(tl.load(x_ptr + start + offsets, mask=inside, other=0.0)))
    tl.atomic_max(largest_ptr + n, tl.max(tl.max(best, axis=1), axis=0).to(tl.int32, bitcast=True))


def find_largest(x, largest):
    """Launches `largest_kernel` over all images of x[N, C, ...]; `largest` is zero before."""
    N, C, D, H, W = in_three_dimensions(x.shape, 1)
    block_w = min(256, triton.next_power_of_2(W))
    block_c = min(4096 // block_w, triton.next_power_of_2(C))
    grid = (N * triton.cdiv(D * H, 4) * triton.cdiv(W, block_w), triton.cdiv(C, block_c))
    largest_kernel[grid](
        x, largest, C, D, H, W, *in_three_dimensions(x.stride(), 0), ROWS=4, BLOCK_C=block_c, BLOCK_W=block_w
    )
'''

_THREE = '''\
def in_three_dimensions(sizes, fill):
    """[N, C, W] or [N, C, H, W] as [N, C, D, H, W]."""
    return (*sizes[:2], *(fill,) * (5 - len(sizes)), *sizes[2:])
'''

_IMAGES = '''\
@triton.jit
def {name}_kernel(
    x_ptr, {pointers}, D, H, W, DP, HP, WP, before_d, before_h, before_w,
    stride_n, stride_c, stride_d, stride_h, stride_w, CG, CP: tl.constexpr, GROUPS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_W: tl.constexpr,
):
    """{doc}"""
    w_tiles = tl.cdiv(WP, BLOCK_W)
    row_tiles = tl.cdiv(DP * HP, ROWS)
    tile = tl.program_id(0)
    w_padded = tile % w_tiles * BLOCK_W + tl.arange(0, BLOCK_W)
    w = w_padded - before_w
    first_row = tile // w_tiles % row_tiles * ROWS
    n = (tile // w_tiles // row_tiles).to(tl.int64)
    slot = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    c = slot // CP * CG + slot % CP
    channel_exists = (slot % CP < CG) & (slot < GROUPS * CP)
    offsets = c[:, None].to(tl.int64) * stride_c + w[None, :] * stride_w
    inside = channel_exists[:, None] & ((w >= 0) & (w < W))[None, :]
    packed = w_padded[None, :] * (GROUPS * CP) + slot[:, None]
    stored = (slot < GROUPS * CP)[:, None] & (w_padded < WP)[None, :]
    for row in range(first_row, tl.minimum(first_row + ROWS, DP * HP)):
        d = row // HP - before_d
        h = row % HP - before_h
        row_exists = (d >= 0) & (d < D) & (h >= 0) & (h < H)
        start = n * stride_n + d.to(tl.int64) * stride_d + h.to(tl.int64) * stride_h
        x = tl.load(x_ptr + start + offsets, mask=inside & row_exists, other=0.0)
        row_offset = (n * DP * HP + row) * WP * (GROUPS * CP)
{stores}


def {name}(x, {buffers}, before, channels, groups):
    """Launches `{name}_kernel` for all images of x[N, C, ...]; `before` is the padding in front."""
    N, C, D, H, W = in_three_dimensions(x.shape, 1)
    DP, HP, WP = in_three_dimensions((0, 0, *{first}.shape[1:-1]), 1)[2:]
    block_c = min(64, triton.next_power_of_2(groups * channels))
    block_w = min(2048 // block_c, triton.next_power_of_2(WP))
    rows = max(1, 4096 // (block_c * block_w))
    grid = (N * triton.cdiv(DP * HP, rows) * triton.cdiv(WP, block_w), triton.cdiv(groups * channels, block_c))
    {name}_kernel[grid](
        x, {buffers}, D, H, W, DP, HP, WP, *in_three_dimensions((0, 0, *before), 0)[2:],
        *in_three_dimensions(x.stride(), 0), C // groups, CP=channels, GROUPS=groups,
        ROWS=rows, BLOCK_C=block_c, BLOCK_W=block_w,
    )
'''

_WEIGHTS = '''\
@triton.jit
def {name}_kernel(
    weight_ptr, {pointers}, CG, OCG, KP, TAPS: tl.constexpr, CP: tl.constexpr,
    TRANSPOSED: tl.constexpr, FLIP: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """{doc}"""
    oc = tl.program_id(0).to(tl.int64)
    if TRANSPOSED:  # weight[channel, output channel of the group, taps]
        start = (oc // OCG * CG * OCG + oc % OCG) * TAPS
        channel_stride = OCG * TAPS
    else:  # weight[output channel, channel of the group, taps]
        start = oc * CG * TAPS
        channel_stride = TAPS
{body}


def {name}(weight, taps, channels, padded_k, groups, transposed, flip):
    """Returns {returned}."""
    weight = weight.contiguous()
    CG, OCG = weight.shape[:2] if transposed else weight.shape[1::-1]
    if transposed:
        CG = CG // groups
    else:
        OCG = OCG // groups
    OC = OCG * groups
{allocations}
    {name}_kernel[(OC,)](
        weight, {buffers}, CG, OCG, padded_k, TAPS=taps, CP=channels, TRANSPOSED=transposed, FLIP=flip,
        BLOCK_K=min(1024, triton.next_power_of_2(padded_k)),
    )
    return {buffers}
'''

_WEIGHT_LOAD = """\
{pad}k = first + tl.arange(0, BLOCK_K)
{pad}tap = TAPS - 1 - k // CP if FLIP else k // CP
{pad}exists = (k % CP < CG) & (tap >= 0) & (tap < TAPS)
{pad}w = tl.load(weight_ptr + start + k % CP * channel_stride + tap, mask=exists, other=0.0)
"""

_WEIGHT_LOOP = "    for first in range(0, KP, BLOCK_K):\n" + _WEIGHT_LOAD.format(pad="        ")

_SPLIT_WEIGHTS = f"""\
    best = tl.zeros((BLOCK_K,), dtype=tl.float32)
{_WEIGHT_LOOP}        best = tl.maximum(best, finite_magnitude(w))
    largest = tl.max(best, axis=0)
    tl.store(largest_ptr + oc, largest)
    scale = fp16_scale(largest)
{_WEIGHT_LOOP}        high, low = packed_parts(w * scale)
        tl.store(high_ptr + oc * KP + k, high, mask=k < KP)
        tl.store(low_ptr + oc * KP + k, low, mask=k < KP)"""

_SPLIT_IMAGE_STORES = """\
        high, low = packed_parts(x * scale)
        tl.store(high_ptr + row_offset + packed, high, mask=stored)
        tl.store(low_ptr + row_offset + packed, low, mask=stored)"""


def _split_images() -> str:
    text = _IMAGES.format(
        name="split_images",
        pointers="high_ptr, low_ptr, largest_ptr",
        doc="x[n, c, d, h, w] * scale[n] = high + low in fp16, channels last, with zeros as padding.",
        stores=_SPLIT_IMAGE_STORES,
        buffers="high, low, largest",
        first="high",
    )
    scale = "    scale = fp16_scale(tl.load(largest_ptr + n).to(tl.float32, bitcast=True))\n"
    return text.replace("    for row in range", scale + "    for row in range", 1)


SPLIT_IMAGES = _SPLIT_HELPERS + "\n\n" + _split_images()
"""`find_largest`, `split_images`, `packed_parts`. Needs `split.PARTS` and `THREE` before it."""

THREE = _THREE

COPY_IMAGES = _IMAGES.format(
    name="pack_images",
    pointers="packed_ptr",
    doc="x[n, c, d, h, w] with channels last and zeros as padding.",
    stores="        tl.store(packed_ptr + row_offset + packed, x, mask=stored)",
    buffers="packed",
    first="packed",
)

SPLIT_WEIGHTS = _WEIGHTS.format(
    name="split_weights",
    pointers="high_ptr, low_ptr, largest_ptr",
    doc="weight * scale[oc] = high + low in fp16, as [oc, tap, CP], with zeros as padding.",
    body=_SPLIT_WEIGHTS,
    returned="the two halves and the largest magnitude of each output channel",
    allocations="""\
    high = torch.empty((OC, padded_k), dtype=torch.float16, device=weight.device)
    low = torch.empty_like(high)
    largest = torch.empty((OC,), dtype=torch.float32, device=weight.device)""",
    buffers="high, low, largest",
)

COPY_WEIGHTS = _WEIGHTS.format(
    name="pack_weights",
    pointers="packed_ptr",
    doc="weight as [oc, tap, CP], with zeros as padding.",
    body=_WEIGHT_LOOP + "        tl.store(packed_ptr + oc * KP + k, w, mask=k < KP)",
    returned="the weights in that layout",
    allocations="    packed = torch.empty((OC, padded_k), dtype=weight.dtype, device=weight.device)",
    buffers="packed",
)
