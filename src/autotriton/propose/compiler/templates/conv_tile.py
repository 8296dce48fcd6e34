"""Kernel statements the implicit matrix products share: which output positions and channels a program computes.

Positions count through the images one after another, so that small images share a tile. In a transposed convolution
with a stride, programs differ in their phase too (see `conv_phase.py`), and positions count within the phase.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.conv_call import ConvCall
from autotriton.propose.compiler.templates.conv_phase import phase_lines


def upper(call: ConvCall) -> list[str]:
    return [axis.upper() for axis in call.axes]


def tile_lines(call: ConvCall, by_phase: bool, images: str) -> list[str]:
    """`oc`, `oc_in_group`, `group`; `image` counted from `image_of_first`; one coordinate per spatial dimension."""
    rows = row_sizes(call, by_phase)
    return [
        "oc_tiles = tl.cdiv(OC // GROUPS, BLOCK_N)",
        "tile = tl.program_id(0)",
        "group = tile // oc_tiles % GROUPS",
        "oc_in_group = tile % oc_tiles * BLOCK_N + tl.arange(0, BLOCK_N)",
        "oc = group * (OC // GROUPS) + oc_in_group",
        "tile = tile // (oc_tiles * GROUPS)",
        *(phase_lines(call) if by_phase else []),
        "# Positions count through all images; those past the end repeat the last one.",
        f"positions = {' * '.join(rows)}",
        "first = tile * BLOCK_M",
        "image_of_first = first // positions",
        f"place = tl.minimum(first + tl.arange(0, BLOCK_M), {images} * positions - 1) - image_of_first * positions",
        "image = place // positions",
        "place = place % positions",
        *_coordinates(call, by_phase, rows),
    ]


def row_sizes(call: ConvCall, by_phase: bool) -> list[str]:
    return [f"{'Q' if by_phase else 'O'}{axis}" for axis in upper(call)]


def _coordinates(call: ConvCall, by_phase: bool, rows: list[str]) -> list[str]:
    prefix, rest, lines = "q" if by_phase else "o", "place", []
    for axis, size in reversed(list(zip(call.axes[1:], rows[1:], strict=True))):
        lines.append(f"{prefix}{axis} = {rest} % {size}")
        rest = f"{rest} // {size}"
    return [*lines, f"{prefix}{call.axes[0]} = {rest}"]


def result_lines(call: ConvCall, by_phase: bool, images: str) -> list[str]:
    """Output coordinates of each position, and which positions and channels exist."""
    lines = [f"position_exists = first + tl.arange(0, BLOCK_M) < {images} * positions"]
    if by_phase:
        lines += [f"o{axis} = q{axis} * STRIDE_{axis.upper()} + phase_{axis}" for axis in call.axes]
        lines += [f"position_exists = position_exists & (o{axis} < O{axis.upper()})" for axis in call.axes]
    return [*lines, "oc_exists = oc_in_group < OC // GROUPS"]


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
    rows = [f"triton.cdiv(O{axis}, stride[{d}])" if by_phase else f"O{axis}" for d, axis in enumerate(big)]
    phases = "".join(f" * stride[{d}]" for d in range(call.dims)) if by_phase else ""
    position_tiles = f'triton.cdiv({images} * {" * ".join(rows)}, tiles["BLOCK_M"])'
    return f'grid = ({position_tiles} * triton.cdiv(OC // groups, tiles["BLOCK_N"]) * groups{phases},)'
