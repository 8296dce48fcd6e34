"""Pooling whose windows overlap from row to row: a strip of output rows per program, each input row reduced once.

The part of a window that lies in one input row is the same for all windows over that row, so its maximum or sum is made
once and kept while the strip moves down: with a 4x4 window and stride 1 that is 4 loads per output instead of 16.
"""

from __future__ import annotations

from autotriton.propose.compiler.templates.conv_call import indented, parameter_list
from autotriton.propose.compiler.templates.piece import Piece, Places, Setting, Site, steered
from autotriton.propose.compiler.templates.pool_call import HELPER, PoolCall, PoolNames, divisor

_MOST_ROWS, _MOST_COLUMNS = 8, 16
"""Of a window: rows are kept in registers, columns are unrolled."""
_WIDE, _HIGH = 64, 32
"""Smaller outputs leave lanes idle, or strips that are mostly margin."""
_NAN = "propagate_nan=tl.PropagateNan.ALL"


def is_strip(call: PoolCall) -> bool:
    """Whether keeping rows saves at least half of the loads."""
    if call.adaptive or call.indices_used or call.dims == 1 or (call.is_max and call.dilation[-2] != 1):
        return False
    rows, columns = call.kernel[-2:]
    saves = rows >= 2 * call.stride[-2] and rows <= _MOST_ROWS and columns <= _MOST_COLUMNS
    return saves and call.space[-1] >= _WIDE and call.space[-2] >= _HIGH


def render_strip(call: PoolCall, site: Site) -> Piece:
    writer = _Strip(call, site)
    text = "\n\n".join([writer.row_function(), writer.kernel(), writer.wrapper()])
    return Piece(site.name, text, call.operands(), _settings(call), (HELPER,))


class _Strip:
    def __init__(self, call: PoolCall, site: Site) -> None:
        self.call, self.names = call, PoolNames(call, site)
        self.depth = "D" in call.upper
        self.kept = call.kernel[-2] - call.stride[-2]

    # --- one input row

    def _row_parameters(self) -> tuple[list[str], list[str]]:
        x = self.names.x
        sizes = [f"{x}_ptr", "at_h", *(["start_d"] if self.depth else []), "start_w", "exists", *self.call.upper]
        others = ["D", "W"] if self.depth else ["W"]
        constants = [f"K{axis}" for axis in others]
        constants += [f"DILATION_{axis}" for axis in others] if self.call.is_max else []
        return [*sizes, *(f"{x}_stride_{axis}" for axis in self.call.axes)], [*constants, "BLOCK_W"]

    def row_function(self) -> str:
        parameters, constants = self._row_parameters()
        x, fill = self.names.x, 'float("-inf")' if self.call.is_max else "0.0"
        what = "largest element" if self.call.is_max else "sum of the elements"
        inside = ["exists", "(at_h >= 0) & (at_h < H)", "(at_w >= 0) & (at_w < W)"]
        place = f"at_h * {x}_stride_h + at_w * {x}_stride_w"
        lines, loop = [f"row = tl.full((BLOCK_W,), {fill}, dtype={self.call.accumulator})"], 0
        if self.depth:
            lines += ["for tap_d in tl.static_range(KD):", f"    at_d = start_d + tap_d{self._dilated('D')}"]
            inside.append("(at_d >= 0) & (at_d < D)")
            place, loop = f"at_d * {x}_stride_d + {place}", 1
        load = f"tl.load({x}_ptr + offsets, mask=inside, other={fill}).to({self.call.accumulator})"
        step = f"row = tl.maximum(row, {load}, {_NAN})" if self.call.is_max else f"row += {load}"
        columns = [
            "for tap_w in tl.static_range(KW):",
            f"    at_w = start_w + tap_w{self._dilated('W')}",
            f"    inside = {' & '.join(inside)}",
            f"    offsets = {steered(place, 1)}",
            f"    {step}",
        ]
        head = f"@triton.jit\ndef {self.names.name}_row(\n{parameter_list(parameters, constants)}\n):\n"
        about = (
            f'    """The {what} of each window that lie{"s" if self.call.is_max else ""} in one row of the input."""\n'
        )
        return head + about + indented(lines) + "\n" + indented(columns, loop + 1) + "\n    return row\n"

    def _dilated(self, axis: str) -> str:
        return f" * DILATION_{axis}" if self.call.is_max else ""

    def _row(self, at_h: str) -> str:
        parameters, constants = self._row_parameters()
        return f"{self.names.name}_row({', '.join([parameters[0], at_h, *parameters[2:], *constants])})"

    # --- kernel

    def _sizes(self) -> list[str]:
        return self.names.missing(["N", "C", *(f"O{axis}" for axis in self.call.upper)])

    def _geometry(self) -> list[tuple[str, str]]:
        kinds = [("K", "kernel_size"), ("STRIDE_", "stride"), ("PADDING_", "padding")]
        found = [(f"{big}{axis}", f"{small}[{d}]") for big, small in kinds for d, axis in enumerate(self.call.upper)]
        if self.call.is_max:
            found += [(f"DILATION_{axis}", f"dilation[{d}]") for d, axis in enumerate(self.call.upper) if axis != "H"]
        return found

    def kernel(self) -> str:
        x, epilogue = self.names.x, self.names.epilogue
        strides = [f"{x}_stride_{axis}" for axis in ("n", "c", *self.call.axes)]
        parameters = [f"{x}_ptr", *epilogue.parameters(), *self._sizes(), *self.call.upper, *strides]
        constants = [*(name for name, _ in self._geometry()), "ROWS", "BLOCK_W"]
        lines = [
            f'"""{self.names.name}: {self.names.formula()}, a strip of one channel of one image per program."""',
            "tile = tl.program_id(0)",
            "ow = tile % tl.cdiv(OW, BLOCK_W) * BLOCK_W + tl.arange(0, BLOCK_W)",
            "tile = tile // tl.cdiv(OW, BLOCK_W)",
            "first = tile % tl.cdiv(OH, ROWS) * ROWS",
            "tile = tile // tl.cdiv(OH, ROWS)",
            *(["od = tile % OD", "tile = tile // OD", "start_d = od * STRIDE_D - PADDING_D"] if self.depth else []),
            "n = (tile // C).to(tl.int64)",
            "c = tile % C",
            f"{x}_ptr += n * {x}_stride_n + c.to(tl.int64) * {x}_stride_c",
            "exists = ow < OW",
            "start_w = ow * STRIDE_W - PADDING_W",
            "n = n + tl.zeros((1,), dtype=tl.int64)  # indices span the block",
            "c = c + tl.zeros((1,), dtype=tl.int64)",
            *(["od = od + tl.zeros((1,), dtype=tl.int32)"] if self.depth else []),
            *(f"row_{k} = {self._row(f'first * STRIDE_H - PADDING_H + {k}')}" for k in range(self.kept)),
            "for step in range(tl.minimum(ROWS, OH - first)):",
            indented(self._output()),
        ]
        head = f"@triton.jit\ndef {self.names.name}_kernel(\n{parameter_list(parameters, constants)}\n):\n"
        return head + indented(lines) + "\n"

    def _output(self) -> list[str]:
        """One row of the output: the rows it shares with the one before are there."""
        call = self.call
        lines = [
            "oh = first + step + tl.zeros((1,), dtype=tl.int32)",
            "start_h = (first + step) * STRIDE_H - PADDING_H",
        ]
        lines += [f"row_{k} = {self._row(f'start_h + {k}')}" for k in range(self.kept, call.kernel[-2])]
        rows = [f"row_{k}" for k in range(call.kernel[-2])]
        lines.append(f"acc = {rows[0]}")
        lines += [f"acc = tl.maximum(acc, {row}, {_NAN})" if call.is_max else f"acc += {row}" for row in rows[1:]]
        lines += [] if call.is_max else [f"acc = acc / {divisor(call, lambda _: '')}"]
        index = [*(["n"] if call.batched else []), "c", *(f"o{axis}" for axis in call.axes)]
        lines += self.names.epilogue.lines("acc", index, "exists", Places(steered=1))
        return [*lines, *(f"row_{k} = row_{k + call.stride[-2]}" for k in range(self.kept))]

    # --- wrapper

    def wrapper(self) -> str:
        x, epilogue = self.names.x, self.names.epilogue
        arguments = [x, *epilogue.arguments(), *self._sizes(), *self.call.upper, f"*{x}.stride()"]
        arguments += [*(f"{name}={value}" for name, value in self._geometry()), "**tiles"]
        strips = " * ".join(["N", "C", *(["OD"] if self.depth else []), 'triton.cdiv(OH, tiles["ROWS"])'])
        return self.names.wrapper(
            [
                *self.names.unpacked(),
                *epilogue.allocations(),
                f'tiles = TILES["{self.names.name}"]',
                f'grid = ({strips} * triton.cdiv(OW, tiles["BLOCK_W"]),)',
                f"{self.names.name}_kernel[grid](",
                parameter_list(arguments, []),
                ")",
                f"return {self.names.returned()}",
            ]
        )


def _settings(call: PoolCall) -> tuple[Setting, ...]:
    """Strips as wide as the output where that is a block, of rows enough that the margin does not count."""
    wide = min(1024, 1 << (call.space[-1] - 1).bit_length())
    shapes = [(32, wide, 4), (16, wide, 4), (64, wide, 4), (32, max(64, wide // 2), 2), (32, wide, 2), (32, wide, 8)]
    shapes += [(16, max(64, wide // 2), 4), (8, wide, 4), (16, max(64, wide // 4), 2)]
    return tuple({"ROWS": r, "BLOCK_W": b, "num_warps": w, "num_stages": 2} for r, b, w in dict.fromkeys(shapes))
