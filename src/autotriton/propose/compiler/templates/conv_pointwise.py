"""1x1 convolution: for each image a matrix product weight[OC, C] @ x[C, positions], straight from the tensors.

Memory bounds it unless there are hundreds of channels, so fp32 is split into fp16 halves tile by tile in the kernel.
"""

from __future__ import annotations

import torch

from autotriton.propose.compiler.templates.conv_call import (
    ConvCall,
    ConvNames,
    indented,
    missing_sizes,
    parameter_list,
)
from autotriton.propose.compiler.templates.conv_parts import dot_helpers, dot_line, with_precisions
from autotriton.propose.compiler.templates.piece import NO_PLACES, Piece, Places, Setting, Site


def is_pointwise(call: ConvCall) -> bool:
    ones = (*call.kernel, *call.stride)
    return not call.transposed and set(ones) == {1} and not any(call.padding)


def render_pointwise(call: ConvCall, site: Site) -> Piece:
    text = _kernel(call, site) + "\n\n" + _wrapper(call, site)
    return Piece(site.name, text, call.operands(), settings(call, site.tf32), dot_helpers(call.dtype))


def _sizes(call: ConvCall, site: Site) -> list[str]:
    return missing_sizes(call, site.epilogue)


def _kernel(call: ConvCall, site: Site) -> str:
    names = ConvNames(call, site)
    x, weight = names.x, names.weight
    parameters = [f"{x}_ptr", f"{weight}_ptr", *names.bias_pointer(), *site.epilogue.parameters(), *_sizes(call, site)]
    parameters += ["CG", "P", f"{x}_stride_n", f"{x}_stride_c", f"{x}_stride_p"]
    precision = ["PRECISION"] if call.dtype is torch.float32 else []
    # 32 bits hold every offset within an image.
    small = max(call.group_channels, call.group_outputs) * call.groups * call.pixels < 2**31
    wide = "" if small else ".to(tl.int64)"
    lines = [
        f'"""{site.name}: {names.formula()}, one product of matrices per image and group."""',
        "oc_tiles = tl.cdiv(OC // GROUPS, BLOCK_N)",
        "tile = tl.program_id(0)",
        "group = tile // oc_tiles % GROUPS",
        "oc_in_group = tile % oc_tiles * BLOCK_N + tl.arange(0, BLOCK_N)",
        f"oc = group * (OC // GROUPS) + oc_in_group{wide}",
        "oc_exists = oc_in_group < OC // GROUPS",
        "tile = tile // (oc_tiles * GROUPS)",
        "n = (tile // tl.cdiv(P, BLOCK_M)).to(tl.int64)",
        "p = tile % tl.cdiv(P, BLOCK_M) * BLOCK_M + tl.arange(0, BLOCK_M)",
        f"{x}_ptr += n * {x}_stride_n + group.to(tl.int64) * CG * {x}_stride_c",
        "acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)",
        "for c in range(0, CG, BLOCK_K):",
        "    channel = c + tl.arange(0, BLOCK_K)",
        f"    x_offsets = channel[:, None]{wide} * {x}_stride_c + p[None, :] * {x}_stride_p",
        f"    x = tl.load({x}_ptr + x_offsets, mask=(channel < CG)[:, None] & (p < P)[None, :], other=0.0)",
        "    weight_mask = oc_exists[:, None] & (channel < CG)[None, :]",
        f"    weight = tl.load({weight}_ptr + oc[:, None] * CG + channel[None, :], mask=weight_mask, other=0.0)",
        f"    {dot_line(call.dtype)}",
        *names.bias_lines("[:, None]", "oc_exists"),
        *_coordinates(call),
        *([] if _is_flat(call) else ["n = n + tl.zeros((1, 1), dtype=tl.int64)  # indices span the tile"]),
        "mask = oc_exists[:, None] & (p < P)[None, :]",
        *site.epilogue.lines("acc", _index(call), "mask", _places(call)),
    ]
    constants = ["GROUPS", *precision, "BLOCK_M", "BLOCK_N", "BLOCK_K"]
    head = f"@triton.jit\ndef {site.name}_kernel(\n{parameter_list(parameters, constants)}\n):\n"
    return head + indented(lines) + "\n"


def _is_flat(call: ConvCall) -> bool:
    """Whether positions are an index of their own beside the image's."""
    return call.batched and call.pixels > 1


def _places(call: ConvCall) -> Places:
    return Places(image="n", flat="p[None, :]", flat_size="P") if _is_flat(call) else NO_PLACES


def _index(call: ConvCall) -> list[str]:
    image = ["n"] if call.batched else []
    return [*image, "oc[:, None]", *(f"o{axis}[None, :]" for axis in call.axes)]


def _coordinates(call: ConvCall) -> list[str]:
    rest, lines = "p", []
    for axis in reversed(call.axes[1:]):
        lines.append(f"o{axis} = {rest} % O{axis.upper()}")
        rest = f"{rest} // O{axis.upper()}"
    return [*lines, f"o{call.axes[0]} = {rest}"]


def _wrapper(call: ConvCall, site: Site) -> str:
    names, epilogue = ConvNames(call, site), site.epilogue
    arguments = ["x_rows", names.weight, *names.bias_argument(), *epilogue.arguments(), *_sizes(call, site)]
    arguments += ["C // groups", "P", "*x_rows.stride()", "GROUPS=groups", "**tiles"]
    body = [
        *names.unpacked(),
        f"{names.weight} = {names.weight}.contiguous()",
        *epilogue.allocations(),
        f"x_rows = {names.x}.flatten(2)",
        "P = x_rows.shape[2]",
        f'tiles = TILES["{site.name}"]',
        'oc_tiles = triton.cdiv(OC // groups, tiles["BLOCK_N"]) * groups',
        'grid = (N * triton.cdiv(P, tiles["BLOCK_M"]) * oc_tiles,)',
        f"{site.name}_kernel[grid](",
        parameter_list(arguments, []),
        ")",
        f"return {epilogue.returned()}",
    ]
    return f"def {site.name}({names.signature()}):\n{indented(body)}\n"


def settings(call: ConvCall, tf32: bool) -> tuple[Setting, ...]:
    deep = 16 if call.group_channels <= 16 else 32 if call.group_channels <= 32 else 64
    wide = 16 if call.group_outputs <= 16 else 32 if call.group_outputs <= 32 else 64
    full = 128 if call.group_outputs > 64 else wide
    long = 128 if call.pixels >= 1024 else 64 if call.pixels >= 64 else 32
    # Two tiles of fp32 and their halves are in registers at once: 128 by 128 by 64 does not fit.
    shapes = [(long, full, min(32, deep), 8 if full == 128 else 4, 3), (64, full, deep, 8, 2), (128, wide, deep, 8, 2)]
    shapes += [(64, wide, deep, 4, 2), (64, wide, 32, 4, 3), (256, wide, 32, 8, 2), (32, wide, 64, 4, 3)]
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    tiles: list[Setting] = [dict(zip(names, shape, strict=True)) for shape in dict.fromkeys(shapes)]
    return with_precisions(call.dtype, tf32, tiles)
