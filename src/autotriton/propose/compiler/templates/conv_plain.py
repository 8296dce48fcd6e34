"""Convolution as one would write it first: for teaching, where a short program is worth more than a fast one.

One program computes a block of output channels by a block of positions of one image; for every tap, a product over the
channels. Depthwise ones and fp64, for which `tl.dot` has no use, take one output channel and sum channel by channel. A
transposed convolution asks of each position and tap which input reaches it, if any.

The same text for every convolution of a kind: what its layer says is read off the layer, and there may be a bias or
none.
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
from autotriton.propose.compiler.templates.conv_direct import spanning
from autotriton.propose.compiler.templates.conv_tile import upper
from autotriton.propose.compiler.templates.piece import Piece, Places, Setting, Site, Written


def render_plain(call: ConvCall, site: Site) -> Piece:
    writer = _Plain(call, site)
    text = writer.kernel() + "\n\n" + writer.wrapper()
    return Piece(site.name, text, writer.operands(), settings(call, site), ())


class _Plain:
    def __init__(self, call: ConvCall, site: Site) -> None:
        self.call, self.site, self.names = call, site, ConvNames(call, site, any_bias=True)
        self.upper = upper(call)
        self.thin = _thin(call)
        self.accumulator = "tl.float64" if call.dtype is torch.float64 else "tl.float32"

    def operands(self) -> tuple[torch.fx.node.Argument | Written, ...]:
        call, layer = self.call, self.call.module
        if not layer:
            known = call.operands()
            return known if call.bias is not None else (*known[:2], None, *known[2:])
        names = ["stride", "padding", *(["output_padding"] if call.transposed else []), "dilation", "groups"]
        bias = Written(f"{layer}.bias") if call.bias is None else call.bias
        return (call.x, call.weight, bias, *(Written(f"{layer}.{name}") for name in names))

    def kernel(self) -> str:
        head = f"@triton.jit\ndef {self.site.name}_kernel(\n{parameter_list(self._parameters(), self._constants())}\n):"
        body = [*self._docstring(), *self._tile(), *self._loops(), *self._finish()]
        return f"{head}\n{indented(body)}\n"

    def _sizes(self) -> list[str]:
        return missing_sizes(self.call, self.site.epilogue)

    def _parameters(self) -> list[str]:
        pointers = [f"{self.names.x}_ptr", f"{self.names.weight}_ptr", f"{self.names.bias}_ptr"]
        return [*pointers, *self.site.epilogue.parameters(), *self._sizes(), "CG", *self.upper]

    def _geometry(self) -> list[tuple[str, str]]:
        kinds = (("STRIDE", "stride"), ("PADDING", "padding"), ("DILATION", "dilation"))
        found = [(f"K{axis}", f"K{axis}") for axis in self.upper]
        found += [(f"{big}_{axis}", f"{small}[{d}]") for big, small in kinds for d, axis in enumerate(self.upper)]
        return [*found, ("GROUPS", "groups")]

    def _constants(self) -> list[str]:
        blocks = ["BLOCK_M"] if self.thin else [*self._precision(), "BLOCK_M", "BLOCK_N", "BLOCK_K"]
        return [*(name for name, _ in self._geometry()), *blocks]

    def _precision(self) -> list[str]:
        return ["PRECISION"] if self.call.dtype is torch.float32 else []

    def _docstring(self) -> list[str]:
        how = "One output channel of one image" if self.thin else "A block of output channels of one image"
        return [f'"""{self.site.name}: {self.names.formula()}', "", f"{how} per program, tap by tap.", '"""']

    def _tile(self) -> list[str]:
        outputs = "OC // GROUPS"
        if self.thin:
            channels = ["oc = tl.program_id(2)", f"group = oc // ({outputs})", f"oc_in_group = oc % ({outputs})"]
            shape = "(BLOCK_M,)"
        else:
            channels = [
                f"group = tl.program_id(2) // tl.cdiv({outputs}, BLOCK_N)",
                f"oc_in_group = tl.program_id(2) % tl.cdiv({outputs}, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)",
                f"oc = group * ({outputs}) + oc_in_group",
                f"oc_exists = oc_in_group < {outputs}",
            ]
            shape = "(BLOCK_N, BLOCK_M)"
        return [
            "n = tl.program_id(1).to(tl.int64)",
            "place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)",
            f"positions = {' * '.join(f'O{axis}' for axis in self.upper)}",
            "position_exists = place < positions",
            *self._coordinates(),
            *channels,
            f"acc = tl.zeros({shape}, dtype={self.accumulator})",
        ]

    def _coordinates(self) -> list[str]:
        lines, rest = [], "place"
        for axis in reversed(self.call.axes[1:]):
            lines.append(f"o{axis} = {rest} % O{axis.upper()}")
            rest = f"{rest} // O{axis.upper()}"
        return [*lines, f"o{self.call.axes[0]} = {rest}"]

    def _loops(self) -> list[str]:
        lines = [
            "    " * depth + f"for tap_{axis} in range(K{axis.upper()}):" for depth, axis in enumerate(self.call.axes)
        ]
        return [
            *lines,
            indented([*self._reach(), *(self._sum() if self.thin else self._product())], self.call.dims),
        ]

    def _reach(self) -> list[str]:
        """`h`, `w`: which input each position's tap meets, and whether it is there."""
        lines, inside = [], ["position_exists"]
        for axis, big in zip(self.call.axes, self.upper, strict=True):
            if self.call.transposed:
                lines.append(f"{axis} = o{axis} + PADDING_{big} - tap_{axis} * DILATION_{big}")
                inside.append(f"({axis} >= 0) & ({axis} % STRIDE_{big} == 0) & ({axis} // STRIDE_{big} < {big})")
            else:
                lines.append(f"{axis} = o{axis} * STRIDE_{big} - PADDING_{big} + tap_{axis} * DILATION_{big}")
                inside.append(f"({axis} >= 0) & ({axis} < {big})")
        lines.append(f"inside = {' & '.join(inside)}")
        if self.call.transposed:
            lines += [f"{axis} = {axis} // STRIDE_{big}" for axis, big in zip(self.call.axes, self.upper, strict=True)]
        return lines

    def _input_at(self, channel: str, vector: str) -> str:
        """`((n * C + channel) * H + h) * W + w`."""
        at = f"(n * (CG * GROUPS) + group * CG + {channel})"
        for axis, big in zip(self.call.axes, self.upper, strict=True):
            at = f"({at} * {big} + {axis}{vector})"
        return at[1:-1]

    def _weight_at(self, channel: str, output: str, output_in_group: str) -> str:
        taps, tap = " * ".join(f"K{axis}" for axis in self.upper), ""
        for axis in self.call.axes:
            tap = f"({tap} * K{axis.upper()} + tap_{axis})" if tap else f"tap_{axis}"
        if self.call.transposed:
            return f"((group * CG + {channel}) * (OC // GROUPS) + {output_in_group}) * ({taps}) + {tap}"
        return f"({output} * CG + {channel}) * ({taps}) + {tap}"

    def _sum(self) -> list[str]:
        x, weight = self.names.x, self.names.weight
        return [
            "for c in range(CG):",
            f"    x = tl.load({x}_ptr + {self._input_at('c', '')}, mask=inside, other=0.0).to({self.accumulator})",
            f"    weight = tl.load({weight}_ptr + {self._weight_at('c', 'oc', 'oc_in_group')}).to({self.accumulator})",
            "    acc += x * weight",
        ]

    def _product(self) -> list[str]:
        x, weight = self.names.x, self.names.weight
        at = self._weight_at("channel[None, :]", "oc[:, None]", "oc_in_group[:, None]")
        precision = ", input_precision=PRECISION" if self._precision() else ""
        return [
            "for c in range(0, CG, BLOCK_K):",
            "    channel = c + tl.arange(0, BLOCK_K)",
            f"    x_offsets = {self._input_at('channel[:, None]', '[None, :]')}",
            f"    x = tl.load({x}_ptr + x_offsets, mask=(channel < CG)[:, None] & inside[None, :], other=0.0)",
            f"    weight_offsets = {at}",
            "    weight_mask = oc_exists[:, None] & (channel < CG)[None, :]",
            f"    weight = tl.load({weight}_ptr + weight_offsets, mask=weight_mask, other=0.0)",
            f"    acc = tl.dot(weight, x, acc{precision})",
        ]

    def _finish(self) -> list[str]:
        image = ["n"] if self.call.batched else []
        if self.thin:
            lines = self._bias(f"tl.load({self.names.bias}_ptr + oc).to({self.accumulator})")
            lines += spanning("oc", 1, self.call.pixels)
            index = [*image, "oc", *(f"o{axis}" for axis in self.call.axes)]
            places = Places("n" if image and self.call.pixels > 1 else "")
            return [*lines, *self.site.epilogue.lines("acc", index, "position_exists", places)]
        lines = self._bias(f"tl.load({self.names.bias}_ptr + oc, mask=oc_exists, other=0.0)[:, None]")
        lines.append("mask = oc_exists[:, None] & position_exists[None, :]")
        index = [*image, "oc[:, None]", *(f"o{axis}[None, :]" for axis in self.call.axes)]
        places = Places("n", "", "place[None, :]", "positions") if image else Places()
        return [*lines, *self.site.epilogue.lines("acc", index, "mask", places)]

    def _bias(self, value: str) -> list[str]:
        return [f"if {self.names.bias}_ptr is not None:", f"    acc += {value}"]

    def wrapper(self) -> str:
        x, weight, epilogue = self.names.x, self.names.weight, self.site.epilogue
        arguments = [x, weight, self.names.bias, *epilogue.arguments(), *self._sizes(), "C // groups"]
        arguments += [*self.upper, *(f"{name}={value}" for name, value in self._geometry()), "**tiles"]
        rows = " * ".join(f"O{axis}" for axis in self.upper)
        channels = "OC" if self.thin else 'groups * triton.cdiv(OC // groups, tiles["BLOCK_N"])'
        body = [
            *self.names.unpacked(),
            f"{x} = {x}.contiguous()",
            f"{weight} = {weight}.contiguous()",
            *epilogue.allocations(),
            f'tiles = TILES["{self.site.name}"]',
            f'grid = (triton.cdiv({rows}, tiles["BLOCK_M"]), N, {channels})',
            f"{self.site.name}_kernel[grid](",
            parameter_list(arguments, []),
            ")",
            f"return {epilogue.returned()}",
        ]
        return f"def {self.site.name}({self.names.signature()}):\n{indented(body)}\n"


def possible(call: ConvCall) -> bool:
    """Images and channels are counted by the grid's second and third number, which end at 65,535."""
    return max(call.images, call.groups * call.group_outputs) <= 65535


def _thin(call: ConvCall) -> bool:
    """Decided by what kind of convolution it is: few channels alone are no reason, for others have many."""
    return call.dtype is torch.float64 or (call.group_channels == 1 and call.groups > 1)


def settings(call: ConvCall, site: Site) -> tuple[Setting, ...]:
    positions = _within(call.pixels, 16, 128)
    if _thin(call):
        return tuple({"BLOCK_M": size, "num_warps": 4} for size in dict.fromkeys((positions, 64, 256)))
    outputs, depth = _within(call.group_outputs, 16, 64), _within(call.group_channels, 16, 32)
    precision = {} if call.dtype is not torch.float32 else {"PRECISION": "tf32" if site.tf32 else "ieee"}
    shapes = dict.fromkeys([(positions, outputs, depth), (min(positions, 64), outputs, depth), (positions, 32, depth)])
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
    return tuple({**precision, **dict(zip(names, shape, strict=True)), "num_warps": 4} for shape in shapes)


def _within(size: int, least: int, most: int) -> int:
    return max(least, min(most, 1 << max(0, size - 1).bit_length()))
