"""Convolution as an implicit matrix product over packed images: for work the tensor cores are worth a pre-pass for.

Images and weights are packed first (`conv_pack.py`): channels last, borders written out. fp32 is split into two fp16
halves there; three fp16 products then stand for one fp32 product. The images are packed a few at a time (PASSES), so
that the extra memory stays a fraction of the input (all of it at PASSES = 1) and the halves are still in the L2 cache
when the product reads them.

K runs over taps and channels. More than 16 channels: CP is a multiple of BLOCK_K, each step has one tap. Fewer: CP is a
power of two and each step covers several taps. What must stay true: CP * taps, rounded up to BLOCK_K, is the row length
of the packed weights, and every position the loop reads was written by the packing kernel.
"""

from __future__ import annotations

import torch

from autotriton.propose.compiler.templates import conv_pack
from autotriton.propose.compiler.templates.conv_call import (
    ConvCall,
    ConvNames,
    indented,
    missing_sizes,
    parameter_list,
)
from autotriton.propose.compiler.templates.conv_packed_settings import FEW_CHANNELS, settings
from autotriton.propose.compiler.templates.conv_phase import (
    HELPER,
    back,
    kernel_taps,
    phase_constants,
    tap_places,
)
from autotriton.propose.compiler.templates.conv_tile import (
    by_image,
    grid_line,
    plain_taps,
    result_index,
    result_lines,
    result_places,
    tile_lines,
    upper,
)
from autotriton.propose.compiler.templates.piece import Piece, Site
from autotriton.propose.compiler.templates.split import PARTS


def render_packed(call: ConvCall, site: Site) -> Piece:
    writer = _Packed(call, site)
    helpers = [conv_pack.THREE]
    if writer.split:
        helpers += [PARTS, conv_pack.SPLIT_IMAGES, conv_pack.SPLIT_WEIGHTS]
    else:
        helpers += [conv_pack.COPY_IMAGES, conv_pack.COPY_WEIGHTS]
    if writer.by_phase:
        helpers.append(HELPER)
    text = writer.kernel() + "\n\n" + writer.wrapper()
    return Piece(site.name, text, call.operands(), settings(call, writer.split), tuple(helpers))


def is_flipped(call: ConvCall) -> bool:
    """A transposed convolution without stride is a plain one with its taps in reverse order."""
    reach = [(k - 1) * d - p for k, d, p in zip(call.kernel, call.dilation, call.padding, strict=True)]
    return call.transposed and call.phases == 1 and min(reach) >= 0


class _Packed:
    """Writes the kernel and the wrapper of one packed convolution."""

    def __init__(self, call: ConvCall, site: Site) -> None:
        self.call, self.site, self.names = call, site, ConvNames(call, site)
        self.split = call.dtype is torch.float32 and not site.tf32
        self.by_phase = call.transposed and not is_flipped(call)
        self.few = call.group_channels <= FEW_CHANNELS
        self.upper = upper(call)

    # --- kernel

    def kernel(self) -> str:
        return "\n".join(
            [
                "@triton.jit",
                f"def {self.site.name}_kernel(",
                parameter_list(self._parameters(), self._constants()),
                "):",
                indented(self._docstring()),
                indented([*tile_lines(self.call, self.by_phase, "count"), *self._starts()]),
                indented([*self._loop(), *self._finish()]),
                "",
            ]
        )

    def _buffers(self, tensor: str) -> list[str]:
        return [f"{tensor}_high", f"{tensor}_low"] if self.split else [f"{tensor}_packed"]

    def _scales(self) -> list[str]:
        return ["x_largest", "weight_largest"] if self.split else []

    def _own(self) -> list[str]:
        return [*self._buffers("x"), *self._buffers("weight"), *self._scales()]

    def _shape_arguments(self) -> list[str]:
        return ["count", "first_image", "padded_k", *(f"{axis}P" for axis in self.upper)]

    def _out_sizes(self) -> list[str]:
        return missing_sizes(self.call, self.site.epilogue)

    def _parameters(self) -> list[str]:
        pointers = [f"{name}_ptr" for name in self._own()] + self.names.bias_pointer()
        return [*pointers, *self.site.epilogue.parameters(), *self._shape_arguments(), *self._out_sizes()]

    def _geometry(self) -> list[tuple[str, str]]:
        """Constants of compilation, and what the wrapper gives for them."""
        found = [(f"K{axis}", f"K{axis}") for axis in self.upper]
        found += [(f"STRIDE_{axis}", f"stride[{d}]") for d, axis in enumerate(self.upper)]
        found += [(f"DILATION_{axis}", f"dilation[{d}]") for d, axis in enumerate(self.upper)]
        if self.by_phase:
            found += [(f"PADDING_{axis}", f"padding[{d}]") for d, axis in enumerate(self.upper)]
            found += [(f"BEFORE_{axis}", f"before[{d}]") for d, axis in enumerate(self.upper)]
            found += phase_constants(self.call)
        elif self.call.transposed:
            found = [(name, value) for name, value in found if not name.startswith("STRIDE")]
        return [*found, ("GROUPS", "groups"), ("CP", "channels")]

    def _constants(self) -> list[str]:
        tiles = ["BLOCK_M", "BLOCK_N", "BLOCK_K", *(["CHUNK"] if self.split else [])]
        return [*(name for name, _ in self._geometry()), *tiles]

    def _docstring(self) -> list[str]:
        lines = [f'"""{self.site.name}: {self.names.formula()}', ""]
        lines.append("An implicit matrix product: rows are output positions, K runs over taps and channels.")
        if self.split:
            lines.append("fp32 = high + low in fp16: low * high + high * low + high * high, summed up in fp32.")
        if self.by_phase:
            lines.append("Transposed: output positions that the same taps reach (a phase) are computed together.")
        return [*lines, '"""']

    def _starts(self) -> list[str]:
        """Offsets of each row's first tap and of each output channel's weights."""
        offset = "" if by_image(self.call) else "image"
        for axis in self.call.axes:
            place = f"q{axis}" if self.by_phase else f"o{axis}"
            if not self.call.transposed:
                place += f" * STRIDE_{axis.upper()}"
            offset = f"({offset} * {axis.upper()}P + {place})" if offset else f"({place})"
        image_size = " * ".join(f"{axis}P" for axis in self.upper)
        shifts = [f"image_start = first_in_tile.to(tl.int64) * {image_size} * (GROUPS * CP)"]
        shifts += [f"{name}_ptr += image_start" for name in self._buffers("x")]
        return [
            *shifts,
            "k = tl.arange(0, BLOCK_K)",
            f"x_rows = {offset} * (GROUPS * CP) + group * CP",
            "weight_rows = (group * (OC // GROUPS) + tl.minimum(oc_in_group, OC // GROUPS - 1)) * padded_k",
        ]

    def _loop(self) -> list[str]:
        lines = ["acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"]
        lines += ["part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"] if self.split else []
        taps = "n_taps" if self.by_phase else " * ".join(f"K{axis}" for axis in self.upper)
        lines.append(f"k_end = {taps} * CP")
        # Fewer channels than a step: the last step may reach behind the last tap.
        lines.append(f"for step in range({'tl.cdiv(k_end, BLOCK_K)' if self.few else 'k_end // BLOCK_K'}):")
        return [*lines, indented([*self._shifts(), *self._loads(), *self._products()])]

    def _shifts(self) -> list[str]:
        """Where this step's taps and channels are, relative to the row's first: scalars, or vectors along K."""
        if self.few:
            lines = ["ks = step * BLOCK_K + k", "tap = ks // CP", "channel = ks % CP"]
        else:
            lines = ["tap = step // (CP // BLOCK_K)", "channel = step % (CP // BLOCK_K) * BLOCK_K"]
        offset = ""
        for axis in self.call.axes:
            offset = f"({offset} * {axis.upper()}P + at_{axis})" if offset else f"at_{axis}"
        lines += [*self._places(), f"x_shift = {offset} * (GROUPS * CP) + channel"]
        if not self.by_phase:
            return [*lines, "weight_shift = step * BLOCK_K"]
        return [*lines, *kernel_taps(self.call), "weight_shift = kernel_tap * CP + channel"]

    def _places(self) -> list[str]:
        """`at_h`: how far the tap's input is from where the row starts in the padded image."""
        axes = list(zip(self.call.axes, self.upper, strict=True))
        if self.by_phase:
            places = [f"at_{a} = BEFORE_{big} + start_{a} - tap_{a} * {back(a)}" for a, big in axes]
            return [*tap_places(self.call), *places]
        return [*plain_taps(self.call), *(f"at_{a} = tap_{a} * DILATION_{big}" for a, big in axes)]

    def _loads(self) -> list[str]:
        if not self.few:
            return [
                *self._load("x", "x_rows[:, None] + (x_shift + k)[None, :]"),
                *self._load("weight", "weight_rows[None, :] + (weight_shift + k)[:, None]"),
            ]
        columns = "weight_shift" if self.by_phase else "(weight_shift + k)"
        return [
            "inside = ks < k_end",
            *self._load("x", "x_rows[:, None] + x_shift[None, :]", "inside[None, :]"),
            *self._load(
                "weight", f"weight_rows[None, :] + {columns}[:, None]", "inside[:, None]" if self.by_phase else ""
            ),
        ]

    def _load(self, tensor: str, offsets: str, mask: str = "") -> list[str]:
        masked = f", mask={mask}, other=0.0" if mask else ""
        lines = [f"{tensor}_offsets = {offsets}"]
        return [*lines, *(f"{name} = tl.load({name}_ptr + {tensor}_offsets{masked})" for name in self._buffers(tensor))]

    def _products(self) -> list[str]:
        if not self.split:
            precision = ', input_precision="tf32"' if self.call.dtype is torch.float32 else ""
            return [f"acc = tl.dot(x_packed, weight_packed, acc{precision})"]
        return [
            "part = tl.dot(x_low, weight_high, part)",
            "part = tl.dot(x_high, weight_low, part)",
            "part = tl.dot(x_high, weight_high, part)",
            "if step % CHUNK == CHUNK - 1:  # the tensor core truncates sums: keep them short",
            "    acc += part",
            "    part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        ]

    def _finish(self) -> list[str]:
        call = self.call
        lines = result_lines(call, self.by_phase, "count", "first_image + ")
        images, along = ("n", "") if by_image(call) else ("n + image", "[None, :]")
        if self.split:
            lines += [
                f"x_scale = fp16_scale(tl.load(x_largest_ptr + {images}).to(tl.float32, bitcast=True))",
                "weight_scale = fp16_scale(tl.load(weight_largest_ptr + oc, mask=oc_exists, other=1.0))",
                f"acc = tl.trans(acc + part) * ((1.0 / weight_scale)[:, None] * (1.0 / x_scale){along})",
            ]
        else:
            lines.append("acc = tl.trans(acc)  # output positions lie next to each other in memory")
        lines += self.names.bias_lines("[:, None]", "oc_exists")
        lines.append("mask = oc_exists[:, None] & position_exists[None, :]")
        places = result_places(call, self.by_phase)
        return [*lines, *self.site.epilogue.lines("acc", result_index(call), "mask", places)]

    # --- wrapper

    def wrapper(self) -> str:
        lines = [*self.names.unpacked(), *self.site.epilogue.allocations(), *self._padding(), *self._packing()]
        body = [f'"""{self._memory()}"""', *lines, *self._passes(), f"return {self.site.epilogue.returned()}"]
        return f"def {self.site.name}({self.names.signature()}):\n{indented(body)}\n"

    def _memory(self) -> str:
        whole = "of the input's own size" if self.split else "as large as the input"
        return f"Needs memory for the packed images: {whole}, divided by PASSES."

    def _padding(self) -> list[str]:
        """`before`: padding in front; `padded`: positions per dimension that any output reads."""
        reach = [f"dilation[{d}] * (K{axis} - 1)" for d, axis in enumerate(self.upper)]
        if self.by_phase:
            before = [f"max(0, ({far} - padding[{d}]) // stride[{d}])" for d, far in enumerate(reach)]
            last = [
                f"before[{d}] + (triton.cdiv(O{axis}, stride[{d}]) * stride[{d}] - 1 + padding[{d}]) // stride[{d}] + 1"
                for d, axis in enumerate(self.upper)
            ]
        elif self.call.transposed:
            before = [f"{far} - padding[{d}]" for d, far in enumerate(reach)]
            last = [f"O{axis} + {far}" for axis, far in zip(self.upper, reach, strict=True)]
        else:
            before = [f"padding[{d}]" for d in range(len(reach))]
            last = [f"(O{axis} - 1) * stride[{d}] + {reach[d]} + 1" for d, axis in enumerate(self.upper)]
        sizes = ", ".join(f"{axis}P" for axis in self.upper)
        lines = ["# Padding in front, and how many positions any output reads."]
        return [*lines, "before = (", *(f"    {value}," for value in before), ")", *_assignments(sizes, last)]

    def _packing(self) -> list[str]:
        name, tiles = self.site.name, 'tiles["BLOCK_K"]'
        taps = " * ".join(f"K{axis}" for axis in self.upper)
        if self.few:
            channels = "max(4, triton.next_power_of_2(C // groups))"
        else:
            channels = f"triton.cdiv(C // groups, {tiles}) * {tiles}"
        kind = "split_weights" if self.split else "pack_weights"
        return [
            f'tiles = dict(TILES["{name}"])',
            'images = triton.cdiv(N, tiles.pop("PASSES"))',
            f"channels = {channels}",
            f"padded_k = triton.cdiv({taps} * channels, {tiles}) * {tiles}",
            f"{', '.join([*self._buffers('weight'), *self._scales()[1:]])} = {kind}(",
            f"    {self.names.weight}, {taps}, channels, padded_k, groups,",
            f"    transposed={self.call.transposed}, flip={is_flipped(self.call)},",
            ")",
            *self._image_buffers(),
        ]

    def _image_buffers(self) -> list[str]:
        shape = f"(images, {', '.join(f'{axis}P' for axis in self.upper)}, groups * channels)"
        x = self.names.x
        if not self.split:
            return [f"x_packed = torch.empty({shape}, dtype={x}.dtype, device={x}.device)"]
        return [
            f"x_high = torch.empty({shape}, dtype=torch.float16, device={x}.device)",
            "x_low = torch.empty_like(x_high)",
            f"x_largest = torch.zeros((N,), dtype=torch.int32, device={x}.device)",
            f"find_largest({x}, x_largest)",
        ]

    def _passes(self) -> list[str]:
        pack = "split_images" if self.split else "pack_images"
        packed = f"{self.names.x}[first_image : first_image + count], {', '.join(self._buffers('x'))}"
        packed += ", x_largest[first_image:]" if self.split else ""
        arguments = [*self._own(), *self.names.bias_argument(), *self.site.epilogue.arguments()]
        arguments += [*self._shape_arguments(), *self._out_sizes()]
        geometry = [f"{name}={value}" for name, value in self._geometry()]
        return [
            "for first_image in range(0, N, images):",
            "    count = min(images, N - first_image)",
            f"    {pack}({packed}, before, channels, groups)",
            f"    {grid_line(self.call, self.by_phase, 'count')}",
            f"    {self.site.name}_kernel[grid](",
            parameter_list([*arguments, *geometry, "**tiles"], []).replace("    ", "        "),
            "    )",
        ]


def _assignments(names: str, values: list[str]) -> list[str]:
    return [f"{name} = {value}" for name, value in zip(names.split(", "), values, strict=True)]
