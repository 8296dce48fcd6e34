"""The text of a sorting kernel and its wrapper."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

import torch

from autotriton.propose.compiler.templates.lanes import Layout

BLOCK = 1 << 11
"""Elements of a tile when `topk` goes through a row too long to be held."""

NETWORK = dedent(
    '''\
    @triton.jit
    def exchange(
        rank, index, place, BIT: tl.constexpr, STAGE: tl.constexpr, LOG_N: tl.constexpr, LOG_TOTAL: tl.constexpr
    ):
        """One step of the network: pairs 2**BIT apart are put in order."""
        other_rank = tl.sum(rank, LOG_TOTAL - 1 - BIT, keep_dims=True) - rank  # of a pair: the sum without oneself
        other_index = tl.sum(index, LOG_TOTAL - 1 - BIT, keep_dims=True) - index
        larger = (rank > other_rank) | ((rank == other_rank) & (index > other_index))
        turned = (place >> BIT) & 1
        if STAGE < LOG_N:  # halves run up and down in turn, until the last stage merges them upwards
            turned = turned ^ ((place >> STAGE) & 1)
        swap = larger != (turned != 0)
        return tl.where(swap, other_rank, rank), tl.where(swap, other_index, index)


    @triton.jit
    def sort_pairs(rank, index, LOG_N: tl.constexpr, LOG_TOTAL: tl.constexpr):
        """Sorts the rows of a tile by rank, equal ranks by index, in a bitonic network."""
        shape: tl.constexpr = rank.shape
        rank, index = tl.reshape(rank, [2] * LOG_TOTAL), tl.reshape(index, [2] * LOG_TOTAL)
        place = tl.reshape(tl.arange(0, 1 << LOG_TOTAL), [2] * LOG_TOTAL)
        for stage in tl.static_range(1, LOG_N + 1):
            for step in tl.static_range(stage):
                rank, index = exchange(rank, index, place, stage - 1 - step, stage, LOG_N, LOG_TOTAL)
        return tl.reshape(rank, shape), tl.reshape(index, shape)
    '''
)


@dataclass(frozen=True)
class Order:
    """What is asked of the sorted row: its first `count` elements (all if None), or the one at `position`."""

    dim: int
    descending: bool = False
    count: object = None
    position: str = ""
    keepdim: bool = False
    nan_first: bool = False
    """A row with a NaN has it at `position` (torch's median)."""


class SortText:
    def __init__(self, name: str, order: Order, layout: Layout, dtype: torch.dtype, streamed: bool) -> None:
        self.name, self.order, self.layout, self.dtype, self.streamed = name, order, layout, dtype, streamed
        self.wide = dtype.itemsize == 8
        self.largest = "0x7FFFFFFFFFFFFFFF" if self.wide else "0x7FFFFFFF"

    def kernel(self) -> str:
        layout = self.layout
        inputs = ["x_ptr", "values_ptr", "indices_ptr", *layout.sizes, *layout.strides("x")]
        inputs += [] if self.order.position else ["COUNT", *layout.strides("out")]
        constants = [f"{name}: tl.constexpr" for name in ("BLOCK_LANES", "BLOCK_N", "LOG_N", "LOG_TOTAL", "KEPT")]
        lines = [
            f'"""values, indices = {self._formula()}"""',
            "lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)",
            f"lane_exists = lanes < {layout.lanes()}",
            *layout.lane_indices(),
            f"x_lane = x_ptr + {layout.lane_offset('x')}",
            "places = tl.arange(0, BLOCK_N)",
            *(self._streamed() if self.streamed else self._whole()),
            *self._stores(),
        ]
        signature = ", ".join([*inputs, *(constants if self.streamed else constants[:-1])])
        return f"@triton.jit\ndef {self.name}_kernel({signature}):\n" + indent("\n".join(lines), "    ") + "\n"

    def _formula(self) -> str:
        along = f"along dimension {self.layout.dim}"
        if self.order.position:
            return f"element {self._position()} of x sorted {along}"
        what = "x sorted" if self.order.count is None else f"the {self.order.count} best of x"
        return f"{what}, {'largest' if self.order.descending else 'smallest'} first, {along}"

    def _position(self) -> str:
        return self.order.position.format(length=self.layout.length)

    def _whole(self) -> list[str]:
        return [
            *self._ranks("places[None, :]", f"lane_exists[:, None] & (places[None, :] < {self.layout.length})"),
            "index = tl.broadcast_to(places[None, :], (BLOCK_LANES, BLOCK_N))",
            "rank, index = sort_pairs(rank, index, LOG_N, LOG_TOTAL)",
        ]

    def _streamed(self) -> list[str]:
        """The first KEPT places hold the best so far, the others are filled anew each time."""
        kind = "tl.int64" if self.wide else "tl.int32"
        inner = [
            "places_in_row = start + places[None, :] - KEPT",
            "fresh = lane_exists[:, None] & (places[None, :] >= KEPT)",
            *self._ranks("places_in_row", f"fresh & (places_in_row < {self.layout.length})"),
            "best_rank = tl.where(places[None, :] < KEPT, best_rank, rank)",
            "best_index = tl.where(places[None, :] < KEPT, best_index, places_in_row)",
            "best_rank, best_index = sort_pairs(best_rank, best_index, LOG_N, LOG_TOTAL)",
        ]
        return [
            f"best_rank = tl.full((BLOCK_LANES, BLOCK_N), {self.largest}, {kind})",
            "best_index = tl.full((BLOCK_LANES, BLOCK_N), 0x7FFFFFFF, tl.int32)  # after everything that exists",
            f"for start in range(0, {self.layout.length}, BLOCK_N - KEPT):",
            *(f"    {line}" for line in inner),
            "index = best_index",
        ]

    def _ranks(self, places: str, mask: str) -> list[str]:
        """Integers in the order of the numbers; what does not exist comes last, by its index."""
        lines = [
            f"exists = {mask}",
            f"x = tl.load(x_lane[:, None] + {places} * x_stride_{self.layout.dim}, mask=exists, other=0)",
        ]
        if self.dtype.is_floating_point:
            kind, bits = ("float64", 64) if self.wide else ("float32", 32)
            lines += [
                f"x = x.to(tl.{kind})",
                f"rank = tl.where(x == 0.0, 0.0, x).to(tl.int{bits}, bitcast=True)",
                f"rank = rank ^ ((rank >> {bits - 1}) & {self.largest})",
                f"rank = tl.where(x != x, {self.largest}, rank)  # NaN is the largest",
            ]
        else:
            lines.append(f"rank = x.to(tl.int{64 if self.wide else 32})")
        if self.order.descending:
            lines.append("rank = ~rank")
        return [*lines, f"rank = tl.where(exists, rank, {self.largest})"]

    def _stores(self) -> list[str]:
        along = f"x_stride_{self.layout.dim}"
        if self.order.position:
            return [
                f"wanted = tl.full((BLOCK_LANES,), {self._position()}, tl.int32)",
                *self._nan_position(),
                "index = tl.sum(tl.where(places[None, :] == wanted[:, None], index, 0), axis=1)",
                f"value = tl.load(x_lane + index * {along}, mask=lane_exists, other=0)",
                "tl.store(values_ptr + lanes, value, mask=lane_exists)",
                "tl.store(indices_ptr + lanes, index, mask=lane_exists)",
            ]
        out = ["places[None, :]" if d == self.layout.dim else f"i{d}[:, None]" for d in range(len(self.layout.sizes))]
        offset = " + ".join(f"{i} * {s}" for i, s in zip(out, self.layout.strides("out"), strict=True))
        return [
            "wanted = lane_exists[:, None] & (places[None, :] < COUNT)",
            f"value = tl.load(x_lane[:, None] + index * {along}, mask=wanted, other=0)",
            f"tl.store(values_ptr + {offset}, value, mask=wanted)",
            f"tl.store(indices_ptr + {offset}, index, mask=wanted)",
        ]

    def _nan_position(self) -> list[str]:
        if not (self.order.nan_first and self.dtype.is_floating_point):
            return []
        return [
            "nans = tl.sum((exists & (x != x)).to(tl.int32), axis=1)",
            f"wanted = tl.where(nans > 0, {self.layout.length} - nans, wanted)  # NaN comes last, and decides",
        ]

    def wrapper(self) -> str:
        layout, order = self.layout, self.order
        sizes = ", ".join(layout.sizes) + ("," if len(layout.sizes) == 1 else "")
        count = "COUNT" if order.count is not None else layout.length
        ones = ["1"] if order.keepdim else []
        dims = [[count] if d == layout.dim and not order.position else ones if d == layout.dim else [s]
                for d, s in enumerate(layout.sizes)]  # fmt: skip
        shape = "".join(f"{one}, " for each in dims for one in each)
        length = str(BLOCK) if self.streamed else f"max(2, triton.next_power_of_2({layout.length}))"
        logs = "LOG_N=block.bit_length() - 1, LOG_TOTAL=(block * lanes).bit_length() - 1"
        kept = f", KEPT={1 << (int(str(order.count)) - 1).bit_length()}" if self.streamed else ""
        strides = [] if order.position else [count, *(f"values.stride({d})" for d in range(len(layout.sizes)))]
        arguments = ["x", "values", "indices", *layout.sizes, *(f"x.stride({d})" for d in range(len(layout.sizes)))]
        lines = [
            f"{sizes} = x.shape",
            *([f"COUNT = {order.count}"] if order.count is not None else []),
            f"values = torch.empty(({shape}), dtype=x.dtype, device=x.device)",
            "indices = torch.empty(values.shape, dtype=torch.int64, device=x.device)",
            f'tiles = TILES["{self.name}"]',
            f'block, lanes = {length}, tiles["BLOCK_LANES"]',
            f"grid = (triton.cdiv({layout.lanes()}, lanes),)",
            f"{self.name}_kernel[grid]({', '.join([*arguments, *strides])},",
            f"    BLOCK_N=block, {logs}{kept}, **tiles)",
            "return values, indices",
        ]
        return f"def {self.name}(x):\n" + indent("\n".join(lines), "    ") + "\n"
