"""Convolution as an implicit matrix product straight from the tensors: one launch, for light work.

K runs over channels and taps in the order of the weights, so that nothing has to be packed; each step gathers the
inputs of its taps with a mask for the borders. Transposed convolution goes phase by phase (see `conv_phase.py`).

No number of taps or channels is one the compiler knows to fit 16 bits: LLVM would add such numbers in pairs
(`add.s16x2`), and where one half of a pair's sum with a constant is used alone, ptxas 12.8, which Triton 3.6 brings,
adds 0 instead: wrong taps, on a GPU only. So the loop starts at a number given at run time, since pipelining writes its
first steps out, and every part of a step's number is taken from the whole, not from a remainder.
"""

from __future__ import annotations

import math

import torch

from autotriton.propose.compiler.templates.conv_call import (
    ConvCall,
    ConvNames,
    indented,
    missing_sizes,
    parameter_list,
)
from autotriton.propose.compiler.templates.conv_parts import dot_helpers, dot_line, with_precisions
from autotriton.propose.compiler.templates.conv_phase import (
    HELPER,
    back,
    kernel_taps,
    phase_constants,
)
from autotriton.propose.compiler.templates.conv_tile import (
    by_image,
    grid_line,
    result_index,
    result_lines,
    result_places,
    tile_lines,
    upper,
    wide,
)
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, shape_of, steered

_MULTIPROCESSORS = 132


def render_gather(call: ConvCall, site: Site) -> Piece:
    writer = _Gather(call, site)
    helpers = (*dot_helpers(call.dtype), *((HELPER,) if call.transposed else ()))
    text = writer.kernel() + "\n\n" + writer.wrapper()
    return Piece(site.name, text, call.operands(), settings(call, site.tf32), helpers)


class _Gather:
    def __init__(self, call: ConvCall, site: Site) -> None:
        self.call, self.site, self.names = call, site, ConvNames(call, site)
        self.upper = upper(call)

    def kernel(self) -> str:
        return "\n".join(
            [
                "@triton.jit",
                f"def {self.site.name}_kernel(",
                parameter_list(self._parameters(), self._constants()),
                "):",
                indented(self._docstring()),
                indented([*tile_lines(self.call, self.call.transposed, "N"), *self._starts()]),
                indented([*self._loop(), *self._finish()]),
                "",
            ]
        )

    def _strides(self) -> list[str]:
        return ["n", "c", *self.call.axes]

    def _sizes(self) -> list[str]:
        return missing_sizes(self.call, self.site.epilogue)

    def _parameters(self) -> list[str]:
        x, weight, epilogue = self.names.x, self.names.weight, self.site.epilogue
        pointers = [f"{x}_ptr", f"{weight}_ptr", *self.names.bias_pointer(), *epilogue.parameters()]
        strides = [f"{x}_stride_{axis}" for axis in self._strides()]
        return [*pointers, *self._sizes(), "CG", *self.upper, *strides, "first_k"]

    def _geometry(self) -> list[tuple[str, str]]:
        kinds = (("STRIDE", "stride"), ("PADDING", "padding"), ("DILATION", "dilation"))
        found = [(f"K{axis}", f"K{axis}") for axis in self.upper]
        found += [(f"{big}_{axis}", f"{small}[{d}]") for big, small in kinds for d, axis in enumerate(self.upper)]
        found += phase_constants(self.call) if self.call.transposed else []
        return [*found, ("GROUPS", "groups")]

    def _constants(self) -> list[str]:
        precision = ["PRECISION"] if self.call.dtype is torch.float32 else []
        return [*(name for name, _ in self._geometry()), *precision, "BLOCK_M", "BLOCK_N", "BLOCK_K"]

    def _docstring(self) -> list[str]:
        lines = [f'"""{self.site.name}: {self.names.formula()}', ""]
        lines.append("An implicit matrix product: output channels by output positions, K runs over channels and taps.")
        if self.call.transposed:
            lines.append("Transposed: output positions that the same taps reach (a phase) are computed together.")
        return [*lines, '"""']

    def _starts(self) -> list[str]:
        x = self.names.x
        last = "tl.minimum(oc_in_group, OC // GROUPS - 1)"
        if self.call.transposed:  # weight[channel, output channel of the group, taps]
            rows = f"(group * CG * (OC // GROUPS) + {last}) * ({self._taps()})"
        else:
            rows = f"(group * (OC // GROUPS) + {last}) * (CG * {self._taps()})"
        image = "" if by_image(self.call) else f"image{self._wide()} * {x}_stride_n + "
        return [
            f"{x}_ptr += first_in_tile.to(tl.int64) * {x}_stride_n + group.to(tl.int64) * CG * {x}_stride_c",
            *self._positions(),
            f"x_rows = {image}{' + '.join(f'at_{axis} * {x}_stride_{axis}' for axis in self.call.axes)}",
            f"weight_rows = {rows}",
        ]

    def _wide(self) -> str:
        return wide(self.call, math.prod(shape_of(self.call.x)[-self.call.dims - 1 :]))

    def _positions(self) -> list[str]:
        """`at_h`: where the input of each position's first tap is."""
        if self.call.transposed:
            return [f"at_{axis} = q{axis} + start_{axis}" for axis in self.call.axes]
        return [f"at_{a} = o{a} * STRIDE_{b} - PADDING_{b}" for a, b in zip(self.call.axes, self.upper, strict=True)]

    def _taps(self) -> str:
        return " * ".join(f"K{axis}" for axis in self.upper)

    def _loop(self) -> list[str]:
        taps = "n_taps" if self.call.transposed else f"({self._taps()})"
        return [
            "acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)",
            "# first_k is 0, but not for the compiler: ptxas 12.8 adds numbers that are known to fit 16 bits wrongly.",
            f"for k in range(first_k, CG * {taps}, BLOCK_K):",
            indented(
                [
                    "ks = k + tl.arange(0, BLOCK_K)",
                    f"k_exists = ks < CG * {taps}",
                    *self._numbers(),
                    *self._places(),
                    *self._loads(),
                    dot_line(self.call.dtype),
                ]
            ),
        ]

    def _numbers(self) -> list[str]:
        """`ks` taken apart into one number per dimension of the taps, `tap_h`, and the channel."""
        lines, rest = [], "ks"
        for axis in reversed(self.call.axes):
            size = f"taps_{axis}" if self.call.transposed else f"K{axis.upper()}"
            lines.append(f"tap_{axis} = {rest} % {size}")
            rest = f"{rest} // {size}"
        return [*lines, f"channel = {rest}"]

    def _places(self) -> list[str]:
        """`to_h`: how far each tap's input is from that of the first."""
        if self.call.transposed:
            return [*kernel_taps(self.call), *(f"to_{a} = -tap_{a} * {back(a)}" for a in self.call.axes)]
        return [f"to_{a} = tap_{a} * DILATION_{b}" for a, b in zip(self.call.axes, self.upper, strict=True)]

    def _loads(self) -> list[str]:
        x, weight = self.names.x, self.names.weight
        shift = "".join(f" + to_{axis} * {x}_stride_{axis}" for axis in self.call.axes)
        lines = ["inside = k_exists[:, None]"]
        if self.call.transposed or any(self.call.padding):
            for a in self.call.axes:
                lines.append(f"{a} = at_{a}[None, :] + to_{a}[:, None]")
                lines.append(f"inside = inside & ({a} >= 0) & ({a} < {a.upper()})")
        lines += [
            f"x_shift = channel{self._wide()} * {x}_stride_c{shift}",
            "# Neighbours in memory lie along the last dimension: let lanes run there.",
            f"x_offsets = {steered('x_rows[None, :] + x_shift[:, None]')}",
            f"x = tl.load({x}_ptr + x_offsets, mask=inside, other=0.0)",
        ]
        columns = "ks"
        if self.call.transposed:
            columns = "weight_columns"
            lines.append(f"weight_columns = channel * (OC // GROUPS) * ({self._taps()}) + kernel_tap")
        weight_at = f"weight_rows[:, None] + {columns}[None, :]"
        return [*lines, f"weight = tl.load({weight}_ptr + {weight_at}, mask=k_exists[None, :], other=0.0)"]

    def _finish(self) -> list[str]:
        lines = [*result_lines(self.call, self.call.transposed, "N"), *self.names.bias_lines("[:, None]", "oc_exists")]
        lines.append("mask = oc_exists[:, None] & position_exists[None, :]")
        places = result_places(self.call, self.call.transposed)
        return [*lines, *self.site.epilogue.lines("acc", result_index(self.call), "mask", places)]

    def wrapper(self) -> str:
        x, weight, epilogue = self.names.x, self.names.weight, self.site.epilogue
        arguments = [x, weight, *self.names.bias_argument(), *epilogue.arguments(), *self._sizes(), "C // groups"]
        arguments += [
            *self.upper,
            f"*{x}.stride()",
            "first_k=0",
            *(f"{name}={value}" for name, value in self._geometry()),
        ]
        body = [
            *self.names.unpacked(),
            f"{weight} = {weight}.contiguous()",
            *epilogue.allocations(),
            f'tiles = TILES["{self.site.name}"]',
            grid_line(self.call, self.call.transposed, "N"),
            f"{self.site.name}_kernel[grid](",
            parameter_list([*arguments, "**tiles"], []),
            ")",
            f"return {epilogue.returned()}",
        ]
        return f"def {self.site.name}({self.names.signature()}):\n{indented(body)}\n"


def settings(call: ConvCall, tf32: bool) -> tuple[Setting, ...]:
    """Best guess first: as large a tile as leaves a program for every multiprocessor."""
    positions, outputs = call.images * call.pixels // call.phases, call.group_outputs
    block_m, block_n = 128, 16 if outputs <= 16 else 32 if outputs <= 32 else 64
    while _programs(call, positions, block_m, block_n) < _MULTIPROCESSORS and max(block_m, block_n) > 16:
        block_m, block_n = (block_m // 2, block_n) if block_m >= block_n else (block_m, block_n // 2)
    deep = 16 if call.depth <= 16 else 32 if call.depth <= 512 else 64
    shapes = [
        (block_m, block_n, deep, 4, 2),
        (64, block_n, 32, 4, 3),
        (32, block_n, 64, 4, 2),
        (128, block_n, 32, 4, 2),
    ]
    shapes += [(64, 32, 64, 4, 3), (32, 32, 32, 2, 3), (16, 16, 64, 2, 3), (128, 64, 32, 8, 2)]
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    tiles: list[Setting] = [dict(zip(names, shape, strict=True)) for shape in dict.fromkeys(shapes)]
    return with_precisions(call.dtype, tf32, tiles)


def _programs(call: ConvCall, positions: int, block_m: int, block_n: int) -> int:
    return -(-positions // block_m) * -(-call.group_outputs // block_n) * call.groups * call.phases
