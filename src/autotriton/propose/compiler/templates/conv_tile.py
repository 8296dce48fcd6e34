"""Kernel statements the implicit matrix products share: which output positions and channels a program computes.

Large images are cut into tiles one by one: the image is then one number per program, and the positions of a tile are
neighbours in memory, which the compiler sees. Small ones share tiles: positions count through the images one after
another. In a transposed convolution with a stride, programs differ in their phase too (see `conv_phase.py`), and
positions count within the phase.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.conv_call import ConvCall
from autotriton.propose.compiler.templates.conv_phase import phase_lines
from autotriton.propose.compiler.templates.piece import Places

_LARGE = 1024
"""Positions above which a tile per image wastes little: an eighth at most, at 128 positions per tile."""
_MOST_POSITIONS = 256
"""Of a tile."""
_INT_32 = 2**31


def upper(call: ConvCall) -> list[str]:
    return [axis.upper() for axis in call.axes]


def by_image(call: ConvCall) -> bool:
    """Whether no tile reaches over the end of an image."""
    return call.batched and call.pixels // call.phases >= _LARGE


def tile_lines(call: ConvCall, by_phase: bool, images: str) -> list[str]:
    """`oc`, `oc_in_group`, `group`, `first_in_tile` (an image); one coordinate per spatial dimension; `place` in the
    image, and where images share tiles `image`, counted from the first in the tile."""
    rows = row_sizes(call, by_phase)
    return [
        "oc_tiles = tl.cdiv(OC // GROUPS, BLOCK_N)",
        "tile = tl.program_id(0)",
        "group = tile // oc_tiles % GROUPS",
        "oc_in_group = tile % oc_tiles * BLOCK_N + tl.arange(0, BLOCK_N)",
        f"oc = group * (OC // GROUPS) + oc_in_group{wide(call, call.pixels * call.groups * call.group_outputs)}",
        "tile = tile // (oc_tiles * GROUPS)",
        *(phase_lines(call) if by_phase else []),
        f"positions = {' * '.join(rows)}",
        *(_one_image() if by_image(call) else _many_images(images)),
        *_coordinates(call, by_phase, rows),
    ]


def _one_image() -> list[str]:
    return [
        "image_tiles = tl.cdiv(positions, BLOCK_M)",
        "first_in_tile = tile // image_tiles",
        "place = tile % image_tiles * BLOCK_M + tl.arange(0, BLOCK_M)",
        "position = tl.minimum(place, positions - 1)  # those past the end repeat the last one",
    ]


def _many_images(images: str) -> list[str]:
    return [
        "# Positions count through all images; those past the end repeat the last one.",
        "first = tile * BLOCK_M",
        "first_in_tile = first // positions",
        f"place = tl.minimum(first + tl.arange(0, BLOCK_M), {images} * positions - 1) - first_in_tile * positions",
        "image = place // positions",
        "place = place % positions",
    ]


def wide(call: ConvCall, image_elements: int) -> str:
    """A cast, unless 32 bits hold every offset within the images of a tile."""
    images = 1 if by_image(call) else _MOST_POSITIONS // max(1, call.pixels // call.phases) + 2
    return "" if images * image_elements < _INT_32 else ".to(tl.int64)"


def row_sizes(call: ConvCall, by_phase: bool) -> list[str]:
    return [f"{'Q' if by_phase else 'O'}{axis}" for axis in upper(call)]


def _coordinates(call: ConvCall, by_phase: bool, rows: list[str]) -> list[str]:
    prefix, rest, lines = "q" if by_phase else "o", "position" if by_image(call) else "place", []
    for axis, size in reversed(list(zip(call.axes[1:], rows[1:], strict=True))):
        lines.append(f"{prefix}{axis} = {rest} % {size}")
        rest = f"{rest} // {size}"
    return [*lines, f"{prefix}{call.axes[0]} = {rest}"]


def result_lines(call: ConvCall, by_phase: bool, images: str, first_image: str = "") -> list[str]:
    """`n`, the tile's first image; output coordinates of each position; which positions and channels exist."""
    lines = [f"n = ({first_image}first_in_tile).to(tl.int64)"]
    if by_image(call):
        lines.append("position_exists = place < positions")
    else:
        lines.append(f"position_exists = first + tl.arange(0, BLOCK_M) < {images} * positions")
    if by_phase:
        lines += [f"o{axis} = q{axis} * STRIDE_{axis.upper()} + phase_{axis}" for axis in call.axes]
        lines += [f"position_exists = position_exists & (o{axis} < O{axis.upper()})" for axis in call.axes]
    elif by_image(call) and call.dims == 1:
        lines.append("ow = place  # neighbours in memory, which the compiler does not see through the minimum")
    return [*lines, "oc_exists = oc_in_group < OC // GROUPS"]


def result_index(call: ConvCall) -> list[str]:
    """How the epilogue finds an element of acc[output channel, position]."""
    image = ["n" if by_image(call) else "(n + image[None, :])"] if call.batched else []
    return [*image, "oc[:, None]", *(f"o{axis}[None, :]" for axis in call.axes)]


def result_places(call: ConvCall, by_phase: bool) -> Places:
    """Positions with others between them, or of several images, are no neighbours: the compiler has to be told."""
    if not call.batched:
        return Places(steered=2)
    flat = ("", "") if by_phase else ("place[None, :]", "positions")
    leaps = by_phase or not by_image(call)
    return Places("n", "" if by_image(call) else "image[None, :]", *flat, steered=2 if leaps else 0)


def plain_taps(call: ConvCall) -> list[str]:
    """`tap` taken apart into one number per dimension."""
    rest, lines = "tap", []
    for axis in reversed(call.axes[1:]):
        lines.append(f"tap_{axis} = {rest} % K{axis.upper()}")
        rest = f"{rest} // K{axis.upper()}"
    return [*lines, f"tap_{call.axes[0]} = {rest}"]


def grid_line(call: ConvCall, by_phase: bool, images: str) -> str:
    """The wrapper's grid for `tile_lines`."""
    big = upper(call)
    rows = " * ".join(f"triton.cdiv(O{axis}, stride[{d}])" if by_phase else f"O{axis}" for d, axis in enumerate(big))
    phases = "".join(f" * stride[{d}]" for d in range(call.dims)) if by_phase else ""
    if by_image(call):
        position_tiles = f'{images} * triton.cdiv({rows}, tiles["BLOCK_M"])'
    else:
        position_tiles = f'triton.cdiv({images} * {rows}, tiles["BLOCK_M"])'
    return f'grid = ({position_tiles} * triton.cdiv(OC // groups, tiles["BLOCK_N"]) * groups{phases},)'
