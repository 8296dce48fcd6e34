"""Averages that read the input in whole rows: over all positions of a channel, and over wide windows side by side.

With one lane per output, wide windows would make neighbouring lanes read far apart; here the lanes run along the
window and are summed up, so that every load is of neighbouring elements.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.conv_call import indented, parameter_list
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of
from autotriton.propose.compiler.templates.pool_call import HELPER, PoolCall, PoolNames

_WIDE = 6
_NAN = "propagate_nan=tl.PropagateNan.ALL"


def is_wide(call: PoolCall) -> bool:
    """Wide windows that hardly overlap, of which none reaches outside of the input."""
    if call.adaptive or call.is_max or call.ceil_mode or any(call.padding):
        return False
    return call.kernel[-1] >= _WIDE and 2 * call.stride[-1] > call.kernel[-1]


def _all_sizes(call: PoolCall) -> list[str]:
    return ["N", "C", *(f"O{axis}" for axis in call.upper)]


# --- all positions of a channel


def render_global(call: PoolCall, site: Site) -> Piece:
    names = PoolNames(call, site)
    text = _global_kernel(call, names) + "\n\n" + _global_wrapper(call, names)
    return Piece(site.name, text, call.operands(), _global_settings(call))


def _global_kernel(call: PoolCall, names: PoolNames) -> str:
    x = names.x
    parameters = [f"{x}_ptr", *names.epilogue.parameters(), *names.missing(_all_sizes(call)), "P"]
    parameters += [f"{x}_stride_n", f"{x}_stride_c", f"{x}_stride_p"]
    index = [*(["n"] if call.batched else []), "c", *("0" for _ in call.axes)]
    fill = 'float("-inf")' if call.is_max else "0.0"
    load = f"tl.load({x}_ptr + rows[:, None] + p[None, :] * {x}_stride_p, mask=inside, other={fill})"
    step = f"best = tl.maximum(best, values, {_NAN})" if call.is_max else "best += values"
    lines = [
        f'"""{names.name}: {names.formula()}, whole channels per program."""',
        "channel = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)",
        "exists = channel < N * C",
        "n = channel // C",
        "c = channel % C",
        f"rows = n * {x}_stride_n + c * {x}_stride_c",
        f"best = tl.full((BLOCK_R, BLOCK_P), {fill}, dtype={call.accumulator})",
        "for first in range(0, P, BLOCK_P):",
        "    p = first + tl.arange(0, BLOCK_P)",
        "    inside = exists[:, None] & (p < P)[None, :]",
        f"    values = {load}.to({call.accumulator})",
        f"    {step}",
    ]
    if call.is_max:  # tl.max passes NaN over
        lines += [
            "is_nan = tl.max((best != best).to(tl.int32), axis=1) > 0",
            'acc = tl.where(is_nan, float("nan"), tl.max(best, axis=1))',
        ]
    else:
        lines.append("acc = tl.sum(best, axis=1) / P")
    lines += names.epilogue.lines("acc", index, "exists")
    head = f"@triton.jit\ndef {names.name}_kernel(\n{parameter_list(parameters, ['BLOCK_R', 'BLOCK_P'])}\n):\n"
    return head + indented(lines) + "\n"


def _global_wrapper(call: PoolCall, names: PoolNames) -> str:
    arguments = ["x_rows", *names.epilogue.arguments(), *names.missing(_all_sizes(call)), "P", "*x_rows.stride()"]
    return names.wrapper(
        [
            *names.unpacked(),
            f"x_rows = {names.x}.flatten(2)",
            "P = x_rows.shape[2]",
            *names.epilogue.allocations(),
            f'tiles = TILES["{names.name}"]',
            'grid = (triton.cdiv(N * C, tiles["BLOCK_R"]),)',
            f"{names.name}_kernel[grid]({', '.join([*arguments, '**tiles'])})",
            f"return {names.returned()}",
        ]
    )


def _global_settings(call: PoolCall) -> tuple[Setting, ...]:
    positions = 1
    for size in shape_of(call.x)[-call.dims :]:
        positions *= size
    long = max(16, min(2048, 1 << max(0, positions - 1).bit_length()))
    shapes = [(max(1, 2048 // long), long, 4), (1, long, 4), (1, 1024, 4), (2, 1024, 8), (4, 256, 4), (16, 64, 4)]
    shapes += [(1, 4096, 8), (8, 128, 4)]
    return tuple({"BLOCK_R": r, "BLOCK_P": p, "num_warps": w, "num_stages": 3} for r, p, w in dict.fromkeys(shapes))


# --- wide windows


def render_wide(call: PoolCall, site: Site) -> Piece:
    names = PoolNames(call, site)
    text = _wide_kernel(call, names) + "\n\n" + _wide_wrapper(call, names)
    return Piece(site.name, text, call.operands(), _wide_settings(call), (HELPER,))


def _wide_kernel(call: PoolCall, names: PoolNames) -> str:
    x, outer = names.x, call.axes[:-1]
    sizes = names.missing(_all_sizes(call))
    parameters = [f"{x}_ptr", *names.epilogue.parameters(), *sizes]
    parameters += [f"{x}_stride_{axis}" for axis in ("n", "c", *call.axes)]
    constants = [f"{kind}{axis}" for kind in ("K", "STRIDE_") for axis in call.upper] + ["LANES", "BLOCK_W"]
    lines = [
        f'"""{names.name}: {names.formula()}. The lanes run along the windows\' columns, for loads of neighbours."""',
        "tile = tl.program_id(0)",
        "ow = tile % tl.cdiv(OW, BLOCK_W) * BLOCK_W + tl.arange(0, BLOCK_W)",
        "tile = tile // tl.cdiv(OW, BLOCK_W)",
    ]
    for axis in reversed(outer):
        lines += [f"o{axis} = tile % O{axis.upper()}", f"tile = tile // O{axis.upper()}"]
    lines += [
        "n = (tile // C).to(tl.int64)",
        "c = tile % C",
        f"{x}_ptr += n * {x}_stride_n + c.to(tl.int64) * {x}_stride_c",
        "tap_w = tl.arange(0, LANES)",
        f"columns = (ow * STRIDE_W)[:, None] * {x}_stride_w + tap_w[None, :] * {x}_stride_w",
        "inside = (ow < OW)[:, None] & (tap_w < KW)[None, :]",
        f"total = tl.zeros((BLOCK_W, LANES), dtype={call.accumulator})",
    ]
    depth = 0
    for axis in outer:
        lines.append("    " * depth + f"for tap_{axis} in range(K{axis.upper()}):")
        depth += 1
    rows = "".join(f" + (o{a} * STRIDE_{a.upper()} + tap_{a}) * {x}_stride_{a}" for a in outer)
    lines.append("    " * depth + f"total += tl.load({x}_ptr{rows} + columns, mask=inside, other=0.0)")
    divisor = str(call.divisor) if call.divisor is not None else f"({' * '.join(f'K{axis}' for axis in call.upper)})"
    lines.append(f"acc = tl.sum(total, axis=1) / {divisor}")
    lines += ["n = n + tl.zeros((1,), dtype=tl.int64)  # indices span the block"]
    lines += [f"{name} = {name} + tl.zeros((1,), dtype=tl.int32)" for name in ("c", *(f"o{a}" for a in outer))]
    index = [*(["n"] if call.batched else []), "c", *(f"o{axis}" for axis in call.axes)]
    lines += names.epilogue.lines("acc", index, "ow < OW")
    head = f"@triton.jit\ndef {names.name}_kernel(\n{parameter_list(parameters, constants)}\n):\n"
    return head + indented(lines) + "\n"


def _wide_wrapper(call: PoolCall, names: PoolNames) -> str:
    sizes = names.missing(_all_sizes(call))
    geometry = [f"K{axis}=kernel_size[{d}]" for d, axis in enumerate(call.upper)]
    geometry += [f"STRIDE_{axis}=stride[{d}]" for d, axis in enumerate(call.upper)]
    lanes = f"LANES=triton.next_power_of_2(kernel_size[{call.dims - 1}])"
    arguments = [names.x, *names.epilogue.arguments(), *sizes, f"*{names.x}.stride()", *geometry, lanes, "**tiles"]
    rows = " * ".join(["N", "C", *(f"O{axis}" for axis in call.upper[:-1])])
    return names.wrapper(
        [
            *names.unpacked(),
            *names.epilogue.allocations(),
            f'tiles = TILES["{names.name}"]',
            f'grid = ({rows} * triton.cdiv(OW, tiles["BLOCK_W"]),)',
            f"{names.name}_kernel[grid](",
            parameter_list(arguments, []),
            ")",
            f"return {names.returned()}",
        ]
    )


def _wide_settings(call: PoolCall) -> tuple[Setting, ...]:
    lanes = 1 << (call.kernel[-1] - 1).bit_length()
    blocks = [max(1, size // lanes) for size in (1024, 2048, 512, 4096)]
    return tuple({"BLOCK_W": b, "num_warps": w, "num_stages": 3} for b in dict.fromkeys(blocks) for w in (4, 8))
