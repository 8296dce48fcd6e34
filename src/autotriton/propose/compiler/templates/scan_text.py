"""The text of a scan's kernels and wrapper, put together from the parts that all its kernels share."""

from __future__ import annotations

from textwrap import indent
from typing import Protocol

import torch.fx

from autotriton.propose.compiler.templates.lanes import Layout
from autotriton.propose.compiler.templates.piece import Site
from autotriton.propose.compiler.templates.scan_operations import OPERATIONS, Operation

_MASKED = "lane_exists[:, None] & (steps[None, :] < {length})"


class Scanning(Protocol):
    """What is to be scanned, and how."""

    operation: str
    reverse: bool
    """From the end."""
    exclusive: bool
    """Without the element itself."""
    masked: bool
    """Of x times a mask."""
    indexed: bool
    """With the index of every value; the wrapper returns a tuple."""


class ScanText:
    """The text of one piece, put together from the parts that all its kernels share."""

    def __init__(self, scan: Scanning, site: Site, inputs: list[torch.fx.Node], layout: Layout) -> None:
        self.scan, self.site, self.layout, self.name = scan, site, layout, site.name
        self.x_type = inputs[0].meta["val"].dtype
        result = site.node.meta["val"]
        self.out_type = (result[0] if scan.indexed else result).dtype
        self.operation: Operation = OPERATIONS[scan.operation](self.x_type, self.out_type)
        self.tensors = ["x", "mask"] if scan.masked else ["x"]
        self.indices = layout.indices()

    # --- kernels ------------------------------------------------------------------------------------------

    def plain(self) -> str:
        """One kernel: every program goes through the whole of its lanes."""
        kernel = self._kernel(
            f"{self.name}_kernel",
            self._parameters([]),
            self._docstring(),
            ["lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)"],
            [f"carry = tl.full((BLOCK_LANES,), {self.operation.identity}, {self.operation.type})"],
            f"tl.range(0, tl.cdiv({self.layout.length}, BLOCK_N), num_stages=PREFETCH)",
            self._stores(),
        )
        launch = [
            'grid = (triton.cdiv(lanes, tiles["BLOCK_LANES"]),)',
            f"{self.name}_kernel[grid]({', '.join(self._arguments([]))}, **tiles)",
        ]
        return kernel + "\n\n" + self._wrapper(launch)

    def chunked(self) -> str:
        """Two kernels: totals of chunks, then the scan of each chunk from the totals before it."""
        lanes = [
            "lanes = tl.program_id(0).to(tl.int64) * BLOCK_LANES + tl.arange(0, BLOCK_LANES)",
            "chunk = tl.program_id(1)",
        ]
        blocks = "chunk * CHUNK_BLOCKS, tl.minimum((chunk + 1) * CHUNK_BLOCKS, tl.cdiv({0}, BLOCK_N))"
        loop = f"tl.range({blocks.format(self.layout.length)}, num_stages=PREFETCH)"
        identity = f"tl.full((BLOCK_LANES,), {self.operation.identity}, {self.operation.type})"
        totals = self._kernel(
            f"{self.name}_totals_kernel",
            [*self._inputs_and_sizes(), "totals_ptr", "CHUNK_BLOCKS"],
            f"totals[lane, chunk] = {self.operation.formula} over that chunk of the lane",
            lanes,
            [f"carry = {identity}"],
            loop,
            [],
            ["tl.store(totals_ptr + lanes * CHUNKS + chunk, carry, mask=lane_exists)"],
        )
        final = self._kernel(
            f"{self.name}_kernel",
            self._parameters(["totals_ptr", "CHUNK_BLOCKS"]),
            self._docstring("; every chunk of a lane starts from the totals of those before it"),
            lanes,
            self._carry_from_totals(),
            loop,
            self._stores(),
        )
        more = ["totals", "chunk_blocks"]
        launch = [
            'chunks, blocks = tiles["CHUNKS"], triton.cdiv(' + self.layout.length + ', tiles["BLOCK_N"])',
            "chunk_blocks = triton.cdiv(blocks, chunks)",
            f"totals = torch.empty((lanes, chunks), dtype={self.operation.torch_type}, device=x.device)",
            'grid = (triton.cdiv(lanes, tiles["BLOCK_LANES"]), chunks)',
            f"{self.name}_totals_kernel[grid]({', '.join([*self._input_arguments(), *more])}, **tiles)",
            f"{self.name}_kernel[grid]({', '.join(self._arguments(more))}, **tiles)",
        ]
        return "\n\n".join([totals, final, self._wrapper(launch)])

    def _carry_from_totals(self) -> list[str]:
        return [
            "before = tl.arange(0, CHUNKS)[None, :]",
            "known = lane_exists[:, None] & (before < chunk)",
            "totals_at = totals_ptr + lanes[:, None] * CHUNKS + before",
            f"totals = tl.load(totals_at, mask=known, other={self.operation.identity})",
            f"running = {self.operation.scanned('totals', False)}",
            "carry = tl.sum(tl.where(before == CHUNKS - 1, running, 0), axis=1)",
        ]

    def _kernel(
        self,
        name: str,
        parameters: list[str],
        docstring: str,
        lanes: list[str],
        carry: list[str],
        loop: str,
        stores: list[str],
        ending: list[str] | None = None,
    ) -> str:
        start = [
            *lanes,
            f"lane_exists = lanes < {self.layout.lanes()}",
            *self.layout.lane_indices(),
            *(f"{t}_lane = {t}_ptr + {self.layout.lane_offset(t)}" for t in self.tensors),
            *carry,
        ]
        last = "0" if self.scan.reverse else "BLOCK_N - 1"
        body = [
            *self._block(),
            *self._loads(),
            f"scan = {self.operation.scanned('x', self.scan.reverse)}",
            f"scan = {self.operation.joined('carry[:, None]', 'scan')}",
            f"carry = tl.sum(tl.where(tl.arange(0, BLOCK_N)[None, :] == {last}, scan, 0), axis=1)",
            *stores,
        ]
        constants = ["BLOCK_LANES: tl.constexpr", "BLOCK_N: tl.constexpr", "PREFETCH: tl.constexpr"]
        if "chunk" in "".join(lanes):
            constants.insert(0, "CHUNKS: tl.constexpr")
        lines = [
            f'"""{docstring}"""',
            *start,
            f"for block in {loop}:",
            *(f"    {line}" for line in body),
            *(ending or []),
        ]
        signature = ", ".join([*parameters, *constants])
        return f"@triton.jit\ndef {name}({signature}):\n" + indent("\n".join(lines), "    ") + "\n"

    def _block(self) -> list[str]:
        """Which steps this block holds, in the order of the scan."""
        number = f"tl.cdiv({self.layout.length}, BLOCK_N) - 1 - block" if self.scan.reverse else "block"
        # A dimension that is not the last has strides that can take the offset past 2^31.
        wide = ".to(tl.int64)" if self.layout.dim != len(self.layout.sizes) - 1 else ""
        return [
            f"steps = ({number}) * BLOCK_N + tl.arange(0, BLOCK_N){wide}".replace("(block)", "block"),
            f"exists = {_MASKED.format(length=self.layout.length)}",
        ]

    def _loads(self) -> list[str]:
        position, mask = "steps[None, :]", "exists"
        if self.scan.exclusive:
            position, mask = "(steps[None, :] - 1)", "exists & (steps[None, :] >= 1)"
        place = f"{position} * {{0}}_stride_{self.layout.dim}"
        address = f"{{0}}_lane[:, None] + {place}"
        lines = [f"x = tl.load({address.format('x')}, mask={mask}, other=0)"]
        if self.scan.masked:
            lines.append(f"kept = tl.load({address.format('mask')}, mask={mask}, other=0)")
            lines.append("x = x * kept.to(x.dtype)")
        return [*lines, *self.operation.prepared(mask)]

    def _stores(self) -> list[str]:
        if not self.scan.indexed:
            return self.site.epilogue.lines("scan", self.indices, "exists")
        offset = " + ".join(
            f"{index} * {stride}" for index, stride in zip(self.indices, self.layout.strides("out"), strict=True)
        )
        return [
            f"place = {offset}",
            *self.operation.unpacked,
            "tl.store(values_ptr + place, value, mask=exists)",
            "tl.store(indices_ptr + place, index, mask=exists)",
        ]

    # --- signatures and wrapper -------------------------------------------------------------------------------

    def _inputs_and_sizes(self) -> list[str]:
        pointers = [f"{tensor}_ptr" for tensor in self.tensors]
        strides = [stride for tensor in self.tensors for stride in self.layout.strides(tensor)]
        return [*pointers, *self.layout.sizes, *strides]

    def _input_arguments(self) -> list[str]:
        strides = [f"{tensor}.stride({d})" for tensor in self.tensors for d in range(len(self.layout.sizes))]
        return [*self.tensors, *self.layout.sizes, *strides]

    def _parameters(self, extra: list[str]) -> list[str]:
        if self.scan.indexed:
            return [*self._inputs_and_sizes(), *extra, "values_ptr", "indices_ptr", *self.layout.strides("out")]
        known = self.site.epilogue.parameters()
        return [*(name for name in self._inputs_and_sizes() if name not in known), *extra, *known]

    def _arguments(self, extra: list[str]) -> list[str]:
        if self.scan.indexed:
            strides = [f"values.stride({d})" for d in range(len(self.layout.sizes))]
            return [*self._input_arguments(), *extra, "values", "indices", *strides]
        known = self.site.epilogue.parameters()
        own = zip(self._inputs_and_sizes(), self._input_arguments(), strict=True)
        return [*(value for name, value in own if name not in known), *extra, *self.site.epilogue.arguments()]

    def _wrapper(self, launch: list[str]) -> str:
        epilogue = self.site.epilogue
        operands = [*self.tensors, *([] if self.scan.indexed else epilogue.operands())]
        sizes = ", ".join(self.layout.sizes) + ("," if len(self.layout.sizes) == 1 else "")
        values = [
            f"values = torch.empty(x.shape, dtype={self.out_type}, device=x.device)",
            "indices = torch.empty(x.shape, dtype=torch.int64, device=x.device)",
        ]
        lines = [
            f"{sizes} = x.shape",
            f"lanes = {self.layout.lanes()}",
            *(values if self.scan.indexed else epilogue.allocations()),
            f'tiles = TILES["{self.name}"]',
            *launch,
            f"return {'values, indices' if self.scan.indexed else epilogue.returned()}",
        ]
        return f"def {self.name}({', '.join(operands)}):\n" + indent("\n".join(lines), "    ") + "\n"

    def _docstring(self, more: str = "") -> str:
        source = "x * mask" if self.scan.masked else "x"
        side = {(False, False): "up to here", (True, False): "from here on"}.get(
            (self.scan.reverse, self.scan.exclusive), "before here"
        )
        formula = f"{self.operation.formula} of {source} {side}, along dimension {self.layout.dim}"
        if self.scan.indexed:
            return f"values, indices = {formula}{more}"
        return f"out = {self.site.epilogue.formula('scan')} where scan = {formula}{more}"
