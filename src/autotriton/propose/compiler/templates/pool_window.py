"""Pooling over windows, plain and adaptive: a block of output rows and columns per program, one load per tap.

What lies outside of the input counts as minus infinity for a maximum and not at all in a sum. NaN wins every maximum.
Blocks share rows of input through the cache; memory bounds the kernel.
"""

from __future__ import annotations

import torch.fx

from autotriton.propose.compiler.templates.conv_call import indented, parameter_list
from autotriton.propose.compiler.templates.conv_direct import block_settings, spanning
from autotriton.propose.compiler.templates.piece import Piece, Places, Setting, Site, Written, shape_of, steered
from autotriton.propose.compiler.templates.pool_call import (
    HELPER,
    PER_AXIS,
    PoolCall,
    PoolNames,
    divisor,
    flat_offset,
)

_MOST_UNROLLED = 32


def render_window(call: PoolCall, site: Site) -> Piece:
    writer = _Window(call, site)
    text = writer.kernel() + "\n\n" + writer.wrapper()
    return Piece(site.name, text, call.operands(), _settings(call), () if call.adaptive else (HELPER,))


def render_plain(call: PoolCall, site: Site) -> Piece:
    """The same text for every pooling of a kind: what its layer says is read off the layer."""
    writer = _Window(call, site, plain=True)
    text = writer.kernel() + "\n\n" + writer.wrapper()
    operands: tuple[torch.fx.node.Argument | Written, ...] = call.operands()
    if call.module:
        operands = (call.x, *(Written(f"{call.module}.{name}") for name in call.parameters()))
    return Piece(site.name, text, operands, _settings(call), (PER_AXIS, HELPER))


class _Window:
    def __init__(self, call: PoolCall, site: Site, plain: bool = False) -> None:
        """`plain` text does not depend on what the window's settings are."""
        self.call, self.names, self.plain = call, PoolNames(call, site), plain
        self.blocked = [axis for axis in call.axes if axis != "d"]

    # --- kernel

    def kernel(self) -> str:
        body = [*self._docstring(), *self._tile(), *self._windows(), *self._loops(), *self._finish()]
        parameters = parameter_list(self._parameters(), self._constants())
        return f"@triton.jit\ndef {self.names.name}_kernel(\n{parameters}\n):\n{indented(body)}\n"

    def _sizes(self) -> list[str]:
        return self.names.missing(["N", "C", *(f"O{axis}" for axis in self.call.upper)])

    def _parameters(self) -> list[str]:
        x = self.names.x
        own = [f"{x}_ptr", *(["indices_ptr"] if self.call.indices_used else [])]
        strides = [f"{x}_stride_{axis}" for axis in ("n", "c", *self.call.axes)]
        return [*own, *self.names.epilogue.parameters(), *self._sizes(), *self.call.upper, *strides]

    def _geometry(self) -> list[tuple[str, str]]:
        """Constants of compilation, and what the wrapper gives for them."""
        if self.call.adaptive:
            return []
        kinds = [("K", "kernel_size"), ("STRIDE_", "stride"), ("PADDING_", "padding")]
        kinds += [("DILATION_", "dilation")] if self.call.is_max else []
        return [(f"{big}{axis}", f"{small}[{d}]") for big, small in kinds for d, axis in enumerate(self.call.upper)]

    def _constants(self) -> list[str]:
        blocks = [f"BLOCK_{axis.upper()}" for axis in self.blocked]
        return [*(name for name, _ in self._geometry()), *blocks]

    def _docstring(self) -> list[str]:
        return [f'"""{self.names.name}: {self.names.formula()}, a block of one channel of one image per program."""']

    def _broadcast(self, axis: str) -> str:
        """How the axis's coordinate meets the block; depth is one number per program."""
        return "" if axis == "d" or self.call.dims == 1 else "[:, None]" if axis == "h" else "[None, :]"

    def _shape(self, one: bool = False) -> str:
        if self.call.dims == 1:
            return "(1,)" if one else "(BLOCK_W,)"
        return "(1, 1)" if one else "(BLOCK_H, BLOCK_W)"

    def _tile(self) -> list[str]:
        lines = ["tile = tl.program_id(0)"]
        for axis in reversed(self.call.axes):
            size, block = f"O{axis.upper()}", f"BLOCK_{axis.upper()}"
            if axis == "d":
                lines += [f"od = tile % {size}", f"tile = tile // {size}"]
            else:
                lines.append(f"o{axis} = tile % tl.cdiv({size}, {block}) * {block} + tl.arange(0, {block})")
                lines.append(f"tile = tile // tl.cdiv({size}, {block})")
        exists = " & ".join(f"(o{axis} < O{axis.upper()}){self._broadcast(axis)}" for axis in self.blocked)
        x = self.names.x
        small = self.call.pixels * shape_of(self.call.x)[-self.call.dims - 1] < 2**31
        wide = "" if small else ".to(tl.int64)"
        return [
            *lines,
            "n = (tile // C).to(tl.int64)",
            f"c = (tile % C){wide}",
            f"{x}_ptr += n * {x}_stride_n + c.to(tl.int64) * {x}_stride_c",
            f"exists = {exists}",
        ]

    def _windows(self) -> list[str]:
        """`start_h`, and for adaptive pooling `end_h`: where each output's window is."""
        if self.call.adaptive:
            lines = []
            for axis, big in zip(self.call.axes, self.call.upper, strict=True):
                lines.append(f"start_{axis} = o{axis} * {big} // O{big}")
                lines.append(f"end_{axis} = ((o{axis} + 1) * {big} + O{big} - 1) // O{big}")
        else:
            lines = [f"start_{a} = o{a} * STRIDE_{a.upper()} - PADDING_{a.upper()}" for a in self.call.axes]
        if not self.call.is_max:
            return [*lines, f"acc = tl.zeros({self._shape()}, dtype={self.call.accumulator})"]
        lines.append(f'acc = tl.full({self._shape()}, float("-inf"), dtype={self.call.accumulator})')
        return [*lines, *(self._first_index() if self.call.indices_used else [])]

    def _first_index(self) -> list[str]:
        """The index when nothing is greater than minus infinity: the window's first element inside of the input."""
        places, lines = [], []
        for axis in self.call.axes:
            first = f"start_{axis}"
            if not self.call.adaptive:
                first, step = f"first_{axis}", f"DILATION_{axis.upper()}"
                lines.append(f"skipped = (tl.maximum(-start_{axis}, 0) + {step} - 1) // {step}")
                lines.append(f"first_{axis} = start_{axis} + skipped * {step}")
            places.append(f"{first}{self._broadcast(axis)}")
        zeros = f"tl.zeros({self._shape()}, dtype=tl.int64)"
        return [*lines, f"indices = {flat_offset(self.call.upper, places)} + {zeros}"]

    def _checked(self) -> bool:
        """Whether a window of an existing output can reach outside of the input."""
        return self.plain or self.call.ceil_mode or any(self.call.padding)

    def _loops(self) -> list[str]:
        lines, depth = [], 0
        unrolled = self.call.taps <= _MOST_UNROLLED
        for axis, big in zip(self.call.axes, self.call.upper, strict=True):
            if self.call.adaptive:
                loop = f"for tap_{axis} in range(({big} + O{big} - 1) // O{big} + 1):"
                place = f"at_{axis} = start_{axis} + tap_{axis}"
            else:
                unroll = not self.plain and (unrolled or (axis == "w" and self.call.kernel[-1] <= 32))
                kind = "tl.static_range" if unroll else "range"
                loop = f"for tap_{axis} in {kind}(K{big}):"
                place = f"at_{axis} = start_{axis} + tap_{axis}" + (f" * DILATION_{big}" if self.call.is_max else "")
            lines += ["    " * depth + loop, "    " * (depth + 1) + place]
            depth += 1
        return [*lines, indented(self._tap(), depth)]

    def _tap(self) -> list[str]:
        x = self.names.x
        inside = ["exists"]
        if self.call.adaptive:
            inside += [f"(at_{a} < end_{a}){self._broadcast(a)}" for a in self.call.axes]
        elif self._checked():
            inside += [f"((at_{a} >= 0) & (at_{a} < {a.upper()})){self._broadcast(a)}" for a in self.call.axes]
        offsets = " + ".join(f"at_{a}{self._broadcast(a)} * {x}_stride_{a}" for a in self.call.axes)
        other = 'float("-inf")' if self.call.is_max else "0.0"
        lines = [f"inside = {' & '.join(inside)}"]
        place = f"{x}_ptr + {offsets}"
        if self._shifts():
            lines.append(f"places = {steered(place, min(self.call.dims, 2))}")
            place = "places"
        load = f"tl.load({place}, mask=inside, other={other}).to({self.call.accumulator})"
        if not self.call.is_max:
            return [*lines, f"acc += {load}"]
        if not self.call.indices_used:
            return [*lines, f"acc = tl.maximum(acc, {load}, propagate_nan=tl.PropagateNan.ALL)"]
        place = flat_offset(self.call.upper, [f"at_{a}{self._broadcast(a)}" for a in self.call.axes])
        return [
            *lines,
            f"x = {load}",
            "greater = (x > acc) | (x != x)",
            f"indices = tl.where(greater, {place}, indices)",
            "acc = tl.where(greater, x, acc)",
        ]

    def _shifts(self) -> bool:
        """Whether a tap's row of inputs is not as aligned as the rows of a tensor."""
        return not self.plain and (self.call.adaptive or self.call.kernel[-1] > 1 or self.call.stride[-1] > 1)

    def _finish(self) -> list[str]:
        lines = [] if self.call.is_max else self._divided()
        lines += spanning("c", self.call.dims, self.call.pixels)
        outputs = [f"o{axis}{self._broadcast(axis)}" for axis in self.call.axes]
        index = [*(["n"] if self.call.batched else []), "c", *outputs]
        image = "n" if self.call.batched and self.call.pixels > 1 else ""
        places = Places(image, steered=min(self.call.dims, 2) if self._shifts() else 0)
        lines += self.names.epilogue.lines("acc", index, "exists", places)
        if self.call.indices_used:
            lines.append(f"tl.store(indices_ptr + {flat_offset(self.call.sizes(), index)}, indices, mask=exists)")
        return lines

    def _divided(self) -> list[str]:
        """The sum over how many elements it counts."""
        return [f"acc = acc / {divisor(self.call, self._broadcast)}"]

    # --- wrapper

    def wrapper(self) -> str:
        x, call, epilogue = self.names.x, self.call, self.names.epilogue
        blocks = [
            f"O{big}" if axis == "d" else f'triton.cdiv(O{big}, tiles["BLOCK_{big}"])'
            for axis, big in zip(call.axes, call.upper, strict=True)
        ]
        arguments = [x, *(["indices"] if call.indices_used else []), *epilogue.arguments(), *self._sizes()]
        arguments += [*call.upper, f"*{x}.stride()", *(f"{name}={value}" for name, value in self._geometry())]
        shape = ", ".join(call.sizes())
        indices = f"indices = torch.empty(({shape}), dtype=torch.int64, device={x}.device)"
        given = [*call.parameters()[:-1]] if self.plain else []
        each = f"(per_axis(value, {call.dims}) for value in ({', '.join(given)}))"
        return self.names.wrapper(
            [
                *([f"{', '.join(given)} = {each}"] if given else []),
                *self.names.unpacked(),
                *epilogue.allocations(),
                *([indices] if call.indices_used else []),
                f'tiles = TILES["{self.names.name}"]',
                f"grid = (N * C * {' * '.join(blocks)},)",
                f"{self.names.name}_kernel[grid](",
                parameter_list([*arguments, "**tiles"], []),
                ")",
                f"return {self.names.returned()}",
            ]
        )


def _settings(call: PoolCall) -> tuple[Setting, ...]:
    space = shape_of(call.x)[-call.dims :]
    if call.adaptive:
        out = tuple(size if wanted is None else wanted for size, wanted in zip(space, call.out, strict=True))
        return block_settings(out, (1,) * call.dims)
    out = tuple(max(1, size // step) for size, step in zip(space, call.stride, strict=True))
    return block_settings(out, call.stride)
