"""The text of scattering kernels and their wrapper, in gather form and from the indices' side."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.lanes import Layout
from autotriton.propose.compiler.templates.piece import Site, shape_of

_FLOATS = {torch.float64: "float64"}


@dataclass(frozen=True)
class Update:
    """The operator's arguments: result[index along dim] becomes, or grows by, source."""

    x: torch.fx.Node
    dim: int
    index: torch.fx.Node
    source: Any
    how: str
    """`write`, `sum`, `mean`, `amax` or `amin`."""
    with_x: bool = True
    """What was there before counts too."""

    @property
    def shared(self) -> bool:
        """One index for all lanes, as in `index_put`."""
        return len(shape_of(self.index)) < len(shape_of(self.x))


class ScatterText:
    def __init__(self, site: Site, update: Update, layout: Layout) -> None:
        self.site, self.update, self.layout, self.name = site, update, layout, site.name
        self.has_source = isinstance(update.source, torch.fx.Node)
        dtype = update.x.meta["val"].dtype
        floating = dtype.is_floating_point
        self.kind = f"tl.{_FLOATS.get(dtype, 'float32')}" if floating else "tl.int64"
        self.tensors = ["x", "index", *(["source"] if self.has_source else [])]

    # --- gather form --------------------------------------------------------------------------------------------

    def gathered(self) -> str:
        out = ["lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)",
               "places = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)",
               f"lane_exists = lanes < {self.layout.lanes()}",
               *self.layout.lane_indices(),
               f"exists = lane_exists[:, None] & (places[None, :] < {self.layout.length})",
               f"listed = {self._listed()}",
               *self._lanes(),
               f"old = tl.load(x_lane[:, None] + places[None, :] * x_stride_{self.layout.dim}, mask=exists, other=0)",
               f"old = old.to({self.kind})",
               *self._start(),
               "for start in range(0, LENGTH, BLOCK_I):",
               *(f"    {line}" for line in self._round()),
               *self._result(),
               *self.site.epilogue.lines("result", self._indices(), "exists")]  # fmt: skip
        kernel = self._function(
            f"{self.name}_kernel", self._docstring(), out, ["BLOCK_I"], self.site.epilogue.parameters()
        )
        launch = [
            f'grid = (triton.cdiv({self.layout.lanes()}, tiles["BLOCK_LANES"]), '
            f'triton.cdiv({self.layout.length}, tiles["BLOCK_N"]))',
            f"{self.name}_kernel[grid]({', '.join(self._arguments(True))}, **tiles)",
        ]
        return kernel + "\n\n" + self._wrapper(launch)

    def _start(self) -> list[str]:
        shape = "(BLOCK_LANES, BLOCK_N)"
        if self.update.how == "write":
            return [f"last = tl.full({shape}, -1, tl.int32)  # the last index that names this place"]
        lines = [f"found = tl.zeros({shape}, tl.int32)"]
        first = {"amax": "-", "amin": ""}.get(self.update.how)
        limit = 'float("inf")' if "float" in self.kind else "0x7FFFFFFFFFFFFFFF"
        return [*lines, f"total = tl.full({shape}, {'0' if first is None else first + limit}, {self.kind})"]

    def _round(self) -> list[str]:
        how, along = self.update.how, 0 if self.update.shared else self.layout.dim
        lines = [
            "i = start + tl.arange(0, BLOCK_I)",
            "given = listed[:, None] & (i[None, :] < LENGTH)",
            f"place = tl.load(index_lane[:, None] + i[None, :] * index_stride_{along}, mask=given, other=-1)",
        ]
        if self._may_be_negative:
            lines.append(f"place = tl.where(given & (place < 0), place + {self.layout.length}, place)")
        lines.append("hit = place[:, None, :] == places[None, :, None]")
        if how == "write":
            return [*lines, "last = tl.maximum(last, tl.max(tl.where(hit, i[None, None, :], -1), axis=2))"]
        lines.append(f"part = {self._source('i[None, :]', 'given')}.to({self.kind})")
        if how in ("sum", "mean"):
            lines.append("total += tl.sum(tl.where(hit, part[:, None, :], 0), axis=2)")
        else:
            lines += self._extremum()
        return [*lines, "found += tl.sum(hit.to(tl.int32), axis=2)"]

    def _extremum(self) -> list[str]:
        name, sign = self.update.how.removeprefix("a"), "-" if self.update.how == "amax" else ""
        limit = 'float("inf")' if "float" in self.kind else "0x7FFFFFFFFFFFFFFF"
        lines = [
            f"best = tl.{name}(tl.where(hit, part[:, None, :], {sign}{limit}), axis=2)",
            f"total = tl.{name}imum(total, best)",
        ]
        if "float" in self.kind:
            lines.append("nan = tl.sum((hit & (part != part)[:, None, :]).to(tl.int32), axis=2) > 0")
            lines.append('total = tl.where(nan | (total != total), float("nan"), total)')
        return lines

    def _result(self) -> list[str]:
        how, with_x = self.update.how, self.update.with_x
        if how == "write":
            value = self._source("last", "exists & (last >= 0)")
            return [f"result = tl.where(last >= 0, {value}.to({self.kind}), old)"]
        if how in ("sum", "mean"):
            lines = ["result = old + total" if with_x else "result = tl.where(found > 0, total, old)"]
            count = "found + 1" if with_x else "tl.where(found > 0, found, 1)"
            return [*lines, *([f"result = result / ({count})"] if how == "mean" else [])]
        if not with_x:
            return ["result = tl.where(found > 0, total, old)"]
        chosen = f"tl.{how.removeprefix('a')}imum(total, old)"
        nan = "(total != total) | (old != old)"
        return [f'result = tl.where({nan}, float("nan"), {chosen})' if "float" in self.kind else f"result = {chosen}"]

    # --- from the indices' side ----------------------------------------------------------------------------------

    def from_indices(self) -> str:
        offset = " + ".join(
            f"{'place' if d == self.layout.dim else f'i{d}[:, None]'} * buffer_stride_{d}" for d in range(self._rank)
        )
        store = "tl.atomic_add" if self.update.how == "sum" else "tl.store"
        along = 0 if self.update.shared else self.layout.dim
        lines = [
            "lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)",
            "i = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)",
            f"lane_exists = lanes < {self.layout.lanes()}",
            *self.layout.lane_indices(),
            f"listed = {self._listed()}",
            *self._lanes(),
            "given = listed[:, None] & (i[None, :] < LENGTH)",
            f"place = tl.load(index_lane[:, None] + i[None, :] * index_stride_{along}, mask=given, other=-1)",
            *([f"place = tl.where(place < 0, place + {self.layout.length}, place)"] if self._may_be_negative else []),
            f"given = given & (place >= 0) & (place < {self.layout.length})",
            f"part = {self._source('i[None, :]', 'given')}.to(buffer_ptr.dtype.element_ty)",
            f"{store}(buffer_ptr + {offset}, part, mask=given)",
        ]
        finish = [
            "lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)",
            "places = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)",
            f"lane_exists = lanes < {self.layout.lanes()}",
            *self.layout.lane_indices(),
            f"exists = lane_exists[:, None] & (places[None, :] < {self.layout.length})",
            "result = tl.load(buffer_ptr + "
            + " + ".join(f"{i} * buffer_stride_{d}" for d, i in enumerate(self._indices()))
            + ", mask=exists, other=0)",
            *self.site.epilogue.lines("result", self._indices(), "exists"),
        ]
        strides = [f"buffer_stride_{d}" for d in range(self._rank)]
        verb = "adds atomically" if self.update.how == "sum" else "writes"
        first = self._function(
            f"{self.name}_indices_kernel",
            f"{verb} source to the places of buffer that index names",
            lines,
            [],
            ["buffer_ptr", *strides],
        )
        epilogue = self.site.epilogue
        known = epilogue.parameters()
        sizes = [s for s in self.layout.sizes if s not in known]
        parameters = ", ".join(["buffer_ptr", *strides, *sizes, *known, *_constants([])])
        second = f"@triton.jit\ndef {self.name}_kernel({parameters}):\n" + indent(
            "\n".join([f'"""out = {self.site.epilogue.formula("buffer")}"""', *finish]), "    "
        )
        wide = f"torch.{self.kind.removeprefix('tl.')}" if self.update.how == "sum" else "x.dtype"
        passed = ", ".join(f"buffer.stride({d})" for d in range(self._rank))
        launch = [
            f"buffer = torch.empty(x.shape, dtype={wide}, device=x.device)",
            "buffer.copy_(x)",
            f'grid = (triton.cdiv({self.layout.lanes()}, tiles["BLOCK_LANES"]), triton.cdiv(LENGTH, tiles["BLOCK_N"]))',
            f"{self.name}_indices_kernel[grid]({', '.join([*self._arguments(False), 'buffer', passed])}, **tiles)",
            f'grid = (grid[0], triton.cdiv({self.layout.length}, tiles["BLOCK_N"]))',
            f"{self.name}_kernel[grid]({', '.join(['buffer', passed, *sizes, *epilogue.arguments()])}, **tiles)",
        ]
        return "\n\n".join([first, second, self._wrapper(launch)])

    # --- shared ----------------------------------------------------------------------------------------------------

    @property
    def _rank(self) -> int:
        return len(self.layout.sizes)

    @property
    def _may_be_negative(self) -> bool:
        return "index_put" in str(self.site.node.target)

    def _indices(self) -> list[str]:
        return ["places[None, :]" if d == self.layout.dim else f"i{d}[:, None]" for d in range(self._rank)]

    def _listed(self) -> str:
        """Lanes the index has: it may be shorter than the result along the other dimensions."""
        if self.update.shared:
            return "lane_exists"
        return " & ".join(["lane_exists", *(f"(i{d} < INDEX_{d})" for d in self.layout.others())])

    def _lanes(self) -> list[str]:
        index = "lanes * 0" if self.update.shared else self.layout.lane_offset("index")
        lines = [f"x_lane = x_ptr + {self.layout.lane_offset('x')}", f"index_lane = index_ptr + {index}"]
        if self.has_source:
            lines.append(f"source_lane = source_ptr + {self.layout.lane_offset('source')}")
        return lines

    def _source(self, position: str, mask: str) -> str:
        if not self.has_source:
            return f"tl.full((1, 1), {self.update.source!r}, {self.kind})"
        place = f"source_lane[:, None] + {position} * source_stride_{self.layout.dim}"
        return f"tl.load({place}, mask={mask}, other=0)"

    def _inputs(self) -> list[tuple[str, str]]:
        """Kernel parameters and what the wrapper passes for them."""
        own = [(f"{tensor}_ptr", tensor) for tensor in self.tensors]
        own += [(size, size) for size in self.layout.sizes]
        own.append(("LENGTH", "LENGTH"))
        if not self.update.shared:
            own += [(f"INDEX_{d}", f"index.shape[{d}]") for d in self.layout.others()]
        for tensor in self.tensors:
            rank = 1 if tensor == "index" and self.update.shared else self._rank
            own += [(f"{tensor}_stride_{d}", f"{tensor}.stride({d})") for d in range(rank)]
        return own

    def _function(self, name: str, docstring: str, lines: list[str], constants: list[str], more: list[str]) -> str:
        parameters = [*(p for p, _ in self._inputs() if p not in more), *more, *_constants(constants)]
        body = indent("\n".join([f'"""{docstring}"""', *lines]), "    ")
        return f"@triton.jit\ndef {name}({', '.join(parameters)}):\n{body}\n"

    def _arguments(self, with_epilogue: bool) -> list[str]:
        known = self.site.epilogue.parameters() if with_epilogue else []
        passed = self.site.epilogue.arguments() if with_epilogue else []
        return [*(argument for name, argument in self._inputs() if name not in known), *passed]

    def _wrapper(self, launch: list[str]) -> str:
        epilogue = self.site.epilogue
        sizes = ", ".join(self.layout.sizes) + ("," if self._rank == 1 else "")
        choice = f'tiles = TILES["{self.name}"]'
        if "BLOCK_I" not in "".join(launch) and "_indices_kernel" in "".join(launch):
            choice = f'tiles = {{key: value for key, value in TILES["{self.name}"].items() if key != "BLOCK_I"}}'
        lines = [
            f"{sizes} = x.shape",
            f"LENGTH = index.shape[{0 if self.update.shared else self.layout.dim}]",
            *epilogue.allocations(),
            choice,
            *launch,
            f"return {epilogue.returned()}",
        ]
        head = f"def {self.name}({', '.join([*self.tensors, *epilogue.operands()])}):\n"
        return head + indent("\n".join(lines), "    ") + "\n"

    def _docstring(self) -> str:
        what = {"write": "the last source", "sum": "the sum of all sources"}.get(self.update.how, self.update.how)
        formula = f"x with {what} whose index is this place, along dimension {self.layout.dim}"
        return f"out = {self.site.epilogue.formula('result')} where result = {formula}"


def _constants(more: list[str]) -> list[str]:
    return [f"{name}: tl.constexpr" for name in ("BLOCK_LANES", "BLOCK_N", *more)]
