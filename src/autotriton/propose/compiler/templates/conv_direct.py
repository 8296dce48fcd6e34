"""Convolution without tensor cores: for depthwise and thinly grouped convolutions, which memory bounds, and for fp64.

One program computes a block of rows and columns of one output channel of one image; each tap is one load of the block,
shifted, times one weight. Transposed convolution goes phase by phase (see `conv_phase.py`).
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
from autotriton.propose.compiler.templates.conv_phase import HELPER, back, phase_constants, phase_lines
from autotriton.propose.compiler.templates.conv_tile import row_sizes, upper
from autotriton.propose.compiler.templates.piece import Piece, Places, Setting, Site, steered

_MOST_UNROLLED = 64


def render_direct(call: ConvCall, site: Site) -> Piece:
    writer = _Direct(call, site)
    helpers = (HELPER,) if call.transposed else ()
    text = writer.kernel() + "\n\n" + writer.wrapper()
    return Piece(site.name, text, call.operands(), block_settings(call.out_shape[-call.dims :], call.stride), helpers)


class _Direct:
    def __init__(self, call: ConvCall, site: Site) -> None:
        self.call, self.site, self.names = call, site, ConvNames(call, site)
        self.upper = upper(call)
        self.rows = row_sizes(call, call.transposed)
        self.accumulator = "tl.float64" if call.dtype is torch.float64 else "tl.float32"

    def kernel(self) -> str:
        body = [*self._docstring(), *self._tile(), *self._starts(), *self._loops(), *self._finish()]
        head = (
            f"@triton.jit\ndef {self.site.name}_kernel(\n{parameter_list(self._parameters(), self._constants())}\n):\n"
        )
        return head + indented(body) + "\n"

    def _broadcast(self, axis: str) -> str:
        """How the axis's coordinate meets the block; depth is one number per program."""
        return "" if axis == "d" or self.call.dims == 1 else "[:, None]" if axis == "h" else "[None, :]"

    def _blocked(self) -> list[str]:
        return [axis for axis in self.call.axes if axis != "d"]

    def _shape(self) -> str:
        return "(BLOCK_W,)" if self.call.dims == 1 else "(BLOCK_H, BLOCK_W)"

    def _sizes(self) -> list[str]:
        return missing_sizes(self.call, self.site.epilogue)

    def _parameters(self) -> list[str]:
        x, epilogue = self.names.x, self.site.epilogue
        pointers = [f"{x}_ptr", f"{self.names.weight}_ptr", *self.names.bias_pointer(), *epilogue.parameters()]
        strides = [f"{x}_stride_{axis}" for axis in ("n", "c", *self.call.axes)]
        return [*pointers, *self._sizes(), "CG", *self.upper, *strides]

    def _geometry(self) -> list[tuple[str, str]]:
        kinds = (("STRIDE", "stride"), ("PADDING", "padding"), ("DILATION", "dilation"))
        found = [(f"K{axis}", f"K{axis}") for axis in self.upper]
        found += [(f"{big}_{axis}", f"{small}[{d}]") for big, small in kinds for d, axis in enumerate(self.upper)]
        found += phase_constants(self.call) if self.call.transposed else []
        return [*found, ("GROUPS", "groups")]

    def _constants(self) -> list[str]:
        blocks = [f"BLOCK_{axis.upper()}" for axis in self._blocked()]
        return [*(name for name, _ in self._geometry()), *blocks]

    def _docstring(self) -> list[str]:
        lines = [f'"""{self.site.name}: {self.names.formula()}', ""]
        lines.append("One output channel of one image per program: each tap is a load of the shifted block.")
        if self.call.transposed:
            lines.append("Transposed: output positions that the same taps reach (a phase) are computed together.")
        return [*lines, '"""']

    def _tile(self) -> list[str]:
        lines = ["tile = tl.program_id(0)", *(phase_lines(self.call) if self.call.transposed else [])]
        prefix = "q" if self.call.transposed else "o"
        for axis, size in reversed(list(zip(self.call.axes, self.rows, strict=True))):
            if axis == "d":
                lines += [f"{prefix}d = tile % {size}", f"tile = tile // {size}"]
                continue
            block = f"BLOCK_{axis.upper()}"
            lines.append(f"{prefix}{axis} = tile % tl.cdiv({size}, {block}) * {block} + tl.arange(0, {block})")
            lines.append(f"tile = tile // tl.cdiv({size}, {block})")
        wide = "" if self.call.groups * self.call.group_outputs * self.call.pixels < 2**31 else ".to(tl.int64)"
        return [*lines, "n = (tile // OC).to(tl.int64)", f"oc = (tile % OC){wide}", "group = oc // (OC // GROUPS)"]

    def _starts(self) -> list[str]:
        x, taps = self.names.x, " * ".join(f"K{axis}" for axis in self.upper)
        if self.call.transposed:  # weight[channel, output channel of the group, taps]
            place = f"(group * CG * (OC // GROUPS) + oc % (OC // GROUPS)) * ({taps})"
            step = f"(OC // GROUPS) * ({taps})"
        else:
            place, step = f"oc * CG * ({taps})", taps
        lines = [
            f"{x}_ptr += n * {x}_stride_n + group.to(tl.int64) * CG * {x}_stride_c",
            f"{self.names.weight}_ptr += {place}",
            f"channel_taps = {step}",
        ]
        return [*lines, *self._output_places(), f"acc = tl.zeros({self._shape()}, dtype={self.accumulator})"]

    def _output_places(self) -> list[str]:
        lines = []
        if self.call.transposed:
            lines = [f"o{axis} = q{axis} * STRIDE_{axis.upper()} + phase_{axis}" for axis in self.call.axes]
        exists = [f"(o{axis} < O{axis.upper()}){self._broadcast(axis)}" for axis in self._blocked()]
        if self.call.transposed and self.call.dims == 3:
            exists.append("(od < OD)")
        return [*lines, f"exists = {' & '.join(exists)}"]

    def _checked(self) -> bool:
        """Whether taps can fall outside of the input."""
        return self.call.transposed or self.call.same or any(self.call.padding)

    def _loops(self) -> list[str]:
        lines, depth = ["for c in range(CG):"], 1
        unrolled = self.call.taps <= _MOST_UNROLLED
        for axis in self.call.axes:
            if self.call.transposed:
                lines.append("    " * depth + f"for tap_{axis} in range(taps_{axis}):")
                lines += [indented(self._phase_place(axis), depth + 1)]
            else:
                kind = "tl.static_range" if unrolled or axis == "w" else "range"
                lines.append("    " * depth + f"for tap_{axis} in {kind}(K{axis.upper()}):")
                place = f"at_{axis} = o{axis} * STRIDE_{axis.upper()} - PADDING_{axis.upper()}"
                lines.append("    " * (depth + 1) + f"{place} + tap_{axis} * DILATION_{axis.upper()}")
            depth += 1
        return [*lines, indented(self._product(), depth)]

    def _phase_place(self, axis: str) -> list[str]:
        return [
            f"kernel_{axis} = first_{axis} + tap_{axis} * STEP_{axis.upper()}",
            f"at_{axis} = q{axis} + start_{axis} - tap_{axis} * {back(axis)}",
        ]

    def _product(self) -> list[str]:
        x, tap = self.names.x, ""
        prefix = "kernel" if self.call.transposed else "tap"
        for axis in self.call.axes:
            tap = f"({tap} * K{axis.upper()} + {prefix}_{axis})" if tap else f"{prefix}_{axis}"
        inside = ["exists"]
        if self._checked():
            inside += [f"((at_{a} >= 0) & (at_{a} < {a.upper()})){self._broadcast(a)}" for a in self.call.axes]
        offsets = [f"at_{a}{self._broadcast(a)} * {x}_stride_{a}" for a in self.call.axes]
        place = f"c * {x}_stride_c + {' + '.join(offsets)}"
        return [
            f"inside = {' & '.join(inside)}",
            f"offsets = {steered(place, self._rank()) if self._shifts() else place}",
            f"x = tl.load({x}_ptr + offsets, mask=inside, other=0.0).to({self.accumulator})",
            f"acc += x * tl.load({self.names.weight}_ptr + c * channel_taps + {tap}).to({self.accumulator})",
        ]

    def _finish(self) -> list[str]:
        lines = []
        if self.call.bias is not None:
            lines.append(f"acc += tl.load({self.names.bias}_ptr + oc).to({self.accumulator})")
        lines += spanning("oc", self.call.dims, self.call.pixels)
        outputs = [f"o{axis}{self._broadcast(axis)}" for axis in self.call.axes]
        index = [*(["n"] if self.call.batched else []), "oc", *outputs]
        image = "n" if self.call.batched and self.call.pixels > 1 else ""
        places = Places(image, steered=self._rank() if self._shifts() else 0)
        return [*lines, *self.site.epilogue.lines("acc", index, "exists", places)]

    def _shifts(self) -> bool:
        """Whether a tap's row of inputs, or a phase's row of outputs, is not as aligned as the rows of a tensor."""
        return self.call.kernel[-1] > 1 or self.call.stride[-1] > 1

    def _rank(self) -> int:
        """Dimensions of a block."""
        return min(self.call.dims, 2)

    def wrapper(self) -> str:
        x, weight, epilogue = self.names.x, self.names.weight, self.site.epilogue
        arguments = [x, weight, *self.names.bias_argument(), *epilogue.arguments(), *self._sizes(), "C // groups"]
        arguments += [*self.upper, f"*{x}.stride()", *(f"{name}={value}" for name, value in self._geometry())]
        body = [
            *self.names.unpacked(),
            f"{weight} = {weight}.contiguous()",
            *epilogue.allocations(),
            f'tiles = TILES["{self.site.name}"]',
            *self._grid(),
            f"{self.site.name}_kernel[grid](",
            parameter_list([*arguments, "**tiles"], []),
            ")",
            f"return {epilogue.returned()}",
        ]
        return f"def {self.site.name}({self.names.signature()}):\n{indented(body)}\n"

    def _grid(self) -> list[str]:
        lines, factors = [], ["N * OC"]
        for d, (axis, big) in enumerate(zip(self.call.axes, self.upper, strict=True)):
            size = f"triton.cdiv(O{big}, stride[{d}])" if self.call.transposed else f"O{big}"
            factors.append(size if axis == "d" else f'triton.cdiv({size}, tiles["BLOCK_{big}"])')
        lines.append(f"blocks = {' * '.join(factors)}")
        phases = "".join(f" * stride[{d}]" for d in range(self.call.dims)) if self.call.transposed else ""
        return [*lines, f"grid = (blocks{phases},)"]


def spanning(channel: str, dims: int, pixels: int) -> list[str]:
    """Where a channel has one position only, the program's own numbers have to span the block."""
    if pixels > 1:
        return []
    one = "(1,)" if dims == 1 else "(1, 1)"
    scalars = [channel, *(["od"] if dims == 3 else [])]
    lines = [f"n = n + tl.zeros({one}, dtype=tl.int64)  # indices span the block"]
    return [*lines, *(f"{name} = {name} + tl.zeros({one}, dtype=tl.int32)" for name in scalars)]


def block_settings(out: tuple[int, ...], stride: tuple[int, ...]) -> tuple[Setting, ...]:
    """Blocks of rows and columns of the output, as square as full cache lines allow: neighbours share rows of input."""
    if len(out) == 1:
        shapes = [(0, 1024, 4), (0, 512, 4), (0, 256, 4), (0, 2048, 8), (0, 1024, 8), (0, 128, 4)]
    else:
        shapes = [(8, 128, 4), (16, 64, 4), (4, 256, 4), (8, 64, 4), (16, 128, 8), (32, 32, 4), (4, 128, 4)]
        shapes += [(2, 256, 4), (8, 256, 8), (1, 512, 4)]
    found: list[Setting] = []
    for rows, columns, warps in shapes:
        width = min(columns, max(16, _power_of_two(out[-1])))
        height = {"BLOCK_H": min(rows * columns // width, _power_of_two(out[-2]))} if len(out) > 1 else {}
        found.append({**height, "BLOCK_W": width, "num_warps": warps, "num_stages": 2})
    return tuple(dict(entry) for entry in dict.fromkeys(tuple(one.items()) for one in found))


def _power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
