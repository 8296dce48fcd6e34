"""Kernels around reductions, in three forms.

*whole*: a row fits into a tile, so everything that hangs together is computed in registers after one reading.
*looped*: rows are longer than that; the columns are gone over once per dependent reduction and once for what is stored.
   A softmax's two reductions take one reading (`online.py`).
*parts*: few rows, many columns; each program reduces a part of a row, a second kernel joins the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates.axes import Dims, flat
from autotriton.propose.compiler.templates.body import Body, Operands, axes_apart, strides
from autotriton.propose.compiler.templates.cluster import Cluster, is_reduction
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.layout import Draft, call, jit
from autotriton.propose.compiler.templates.loops import (
    Loops,
    decomposition,
    inner_sizes,
    loops_of,
    number_arguments,
    occurs,
    take_apart,
    total,
)
from autotriton.propose.compiler.templates.online import online, softmax_pair, total_of
from autotriton.propose.compiler.templates.piece import Piece, Setting, node_at
from autotriton.propose.compiler.templates.reducers import PRODUCT_HELPER, Reducer, reducer
from autotriton.propose.compiler.templates.sizes import Sizes
from autotriton.propose.compiler.templates.views import base_of

_FEW = 128
"""Columns up to which 64 neighbouring rows are kept in registers."""
_ENOUGH = 2 * 132
"""Programs that keep an H200 busy."""
_LONG = 64
"""Neighbouring rows from which on a tile is of them alone."""
Outputs = list[tuple[torch.fx.Node, str]]


def render(cluster: Cluster, operands: Operands, outputs: Sequence[torch.fx.Node], name: str, formula: str) -> Piece:
    names = [(node, operands.names.unique("out")) for node in outputs]
    loops = loops_of(cluster, operands, outputs, cluster.kept, cluster.reduced)
    draft = Draft(
        name,
        formula,
        operands,
        Sizes(operands.walked, computed=operands.computed()),
        [(out, _value(node), cluster.dims[node]) for node, out in names],
    )
    if cluster.is_wide:
        return _Reduction(cluster, operands, names, loops, draft).in_parts()
    columns = math.prod(group.size for group in loops.columns)
    contiguous = not loops.rows or _innermost_reduced(cluster, operands)
    if not contiguous and not cluster.options.plain and _has_long_rows(cluster, operands, loops, columns):
        take_apart(loops)
    work = _Reduction(cluster, operands, names, loops, draft)
    few = _FEW if loops.apart else 64
    held = columns <= cluster.options.whole_columns and (contiguous or columns <= few)
    return work.whole() if held else work.looped(contiguous)


def _value(node: torch.fx.Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _has_long_rows(cluster: Cluster, operands: Operands, loops: Loops, columns: int) -> bool:
    """Whether the columns' stride holds enough neighbouring rows for a tile, of which all offsets fit into 32 bits."""
    if len(loops.rows) != 2 or axes_apart(cluster):
        return False
    inner = loops.rows[-1]
    neighbours = all(each.steps[-1][0] is inner.axes[-1] for each in operands.loads.values() if len(each.steps) > 1)
    return neighbours and inner.size >= _LONG and inner.size * columns < 2**31


def _innermost_reduced(cluster: Cluster, operands: Operands) -> bool:
    """Whether neighbours in memory belong to the same row, in the largest of what is read."""
    sizes = {name: math.prod(axis.size for axis, _ in each.steps) for name, each in operands.loads.items()}
    votes = [
        each.steps[-1][0] in cluster.reduced
        for name, each in operands.loads.items()
        if each.steps and sizes[name] == max(sizes.values())
    ]
    return sum(votes) * 2 >= len(votes)


class _Reduction:
    hoisted = False
    pair: tuple[torch.fx.Node, torch.fx.Node] | None = None
    """A softmax's two reductions, which one reading does."""

    def __init__(self, cluster: Cluster, operands: Operands, outputs: Outputs, loops: Loops, draft: Draft) -> None:
        self.cluster, self.operands, self.outputs, self.loops, self.draft = cluster, operands, outputs, loops, draft
        self.levels = _levels(cluster)
        self.row_loads: dict[tuple[torch.fx.Node, Dims], str] = {}
        self.row_lines: list[str] = []
        """Loads that are the same for all columns, which stand before the loops."""
        self.body = self._body()
        self.states: dict[torch.fx.Node, str] = {}

    def _body(self) -> Body:
        single = "" if self.loops.rows else "row"
        row = "" if self.loops.apart else "row"
        body = Body(self.cluster, self.operands, self.loops.groups, self.loops.mask_of, self.loops.rows, row, single)
        body.columns = self.loops.columns
        body.row_loads, body.row_lines, body.hoisted = self.row_loads, self.row_lines, self.hoisted
        return body

    # --- the three forms ---------------------------------------------------------------------------------------------

    def whole(self) -> Piece:
        for member in self.cluster.members:
            if is_reduction(member):
                reduce, value = self._begin(member)
                lines = reduce.once(self.states[member], value, "mask")
                self.body.lines += [line for line in lines if line not in self.body.lines]
                self._end(member, reduce)
            else:
                self.body.member(member)
        self.body.stores(self.outputs)
        head = [*self._rows(), "col = tl.arange(0, BLOCK_C)[None, :]", *self._columns()]
        lines = self._complete(head, self.body.lines)
        self.draft.constants([("BLOCK_C", "triton.next_power_of_2(n_cols)")])
        return self._helped(self.draft.piece(lines, ["BLOCK_R"], self._grid(), self._whole_tiles()))

    def looped(self, contiguous: bool) -> Piece:
        self.hoisted = self.body.hoisted = True
        lines = self._row_members(0)
        self.pair = softmax_pair([m for m in self.cluster.members if is_reduction(m)])
        for level in range(1, max(self.levels.values()) + 1):
            reductions = [m for m in self.cluster.members if is_reduction(m) and self.levels[m] == level]
            if self.pair is None or reductions != [self.pair[1]]:
                lines += self._pass(reductions)
            lines += self._row_members(level)
        full = [(node, name) for node, name in self.outputs if self.cluster.is_full(node)]
        if full:
            lines += self._loop([], self._full_statements([node for node, _ in full], full))
        self.body.lines = []
        self.body.stores([(node, name) for node, name in self.outputs if not self.cluster.is_full(node)])
        lines += self.body.lines
        head = self._complete(self._rows(), [*self.row_lines, *lines], columns=False)
        tiles = self._looped_tiles(contiguous)
        return self._helped(self.draft.piece(head, ["BLOCK_R", "BLOCK_C"], self._grid(), tiles))

    def in_parts(self) -> Piece:
        self.hoisted = self.body.hoisted = True
        reductions = [m for m in self.cluster.members if is_reduction(m)]
        before = self._row_members(0)
        full = [(node, name) for node, name in self.outputs if self.cluster.is_full(node)]
        lines = self._pass(reductions, "start", "stop", full)
        stored, loaded, buffers = [], [], []
        own = {self.states[member]: member for member in reversed(reductions)}
        for state, member in own.items():
            reduce = self._reducer(member)
            stored += reduce.part(state)
            for part, kind in zip(reduce.parts(state), reduce.part_types, strict=True):
                stored.append(f"tl.store({part}_ptr + row * n_parts + tl.program_id(1), {part}, mask=row_mask)")
                loaded.append(f"{part} = tl.load({part}_ptr + row * n_parts + col, mask=part_mask)")
                buffers.append((part, str(kind)))
        head = [*self._rows(), "start = tl.program_id(1) * PART", "stop = tl.minimum(start + PART, n_cols)"]
        first = self._complete(head, [*self.row_lines, *before, *lines, *stored], columns=False)
        self.row_loads.clear()
        self.row_lines.clear()
        return self._two_kernels(first, loaded, buffers, reductions)

    # --- parts of them -----------------------------------------------------------------------------------------------

    def _two_kernels(
        self, first: list[str], loaded: list[str], buffers: list[tuple[str, str]], reductions: list[torch.fx.Node]
    ) -> Piece:
        draft, name = self.draft, self.draft.name
        self.body.lines = []
        for member in reductions:
            lines = self._reducer(member).whole(self.states[member])
            self.body.lines += [line for line in lines if line not in self.body.lines]
        made = self.body.lines
        self.body.values = {n: v for n, v in self.body.values.items() if self.levels.get(n, 0) > 0}
        made += [*self._row_members(0), *self._row_members(1)]
        self.body.lines = [*self.row_lines, *made]
        rows = [(node, out) for node, out in self.outputs if not self.cluster.is_full(node)]
        self.body.stores(rows)
        second = [
            "row = (tl.program_id(0).to(tl.int64) + tl.arange(0, 1))[:, None]",
            "row_mask = row < n_rows",
            "col = tl.arange(0, BLOCK_P)[None, :]",
            "part_mask = row_mask & (col < n_parts)",
            *decomposition(self.loops.rows, "row", "\n".join(self.body.lines)),
            *loaded,
            *self.body.lines,
        ]
        full = [out for node, out in self.outputs if self.cluster.is_full(node)]
        parts = [part for part, _ in buffers]
        kernel = draft.kernel(first, ["PART", "BLOCK_R", "BLOCK_C"], "_parts", [*full, *parts], ["n_parts"])
        text = "\n".join(second)
        tensors = [n for n, _, _ in self.operands.values if occurs(f"{n}_ptr", text)]
        row_outs = [out for _, out in rows]
        constants = [(n, t) for n, t in draft._constants if occurs(n, text)]
        numbers = [n for n in draft._numbers if occurs(n, text)]
        strided = [(n, t) for n, t in draft._strides if occurs(n, text)]
        parameters = [
            *(f"{n}_ptr" for n in [*tensors, *parts, *row_outs]),
            *numbers,
            *("n_rows", "n_cols", "n_parts"),
            *(n for n, _ in strided),
            *(f"{n}: tl.constexpr" for n, _ in constants),
            "BLOCK_P: tl.constexpr",
        ]
        joined = jit(f"{name}_kernel", parameters, draft.formula, second)
        made = [
            f"{part} = torch.empty((n_rows, n_parts), dtype={kind}, device={self.operands.values[0][0]}.device)"
            for part, kind in buffers
        ]
        lines = [
            *draft.size_lines(),
            *draft.allocations(),
            f'tiles = TILES["{name}"]',
            "# At most 1024 parts, each a whole number of blocks.",
            'part = triton.cdiv(triton.cdiv(n_cols, 1024), tiles["BLOCK_C"]) * tiles["BLOCK_C"] * tiles["BLOCKS"]',
            "n_parts = triton.cdiv(n_cols, part)",
            *made,
            call(
                f'{name}_parts_kernel[(triton.cdiv(n_rows, tiles["BLOCK_R"]), n_parts)]',
                [
                    *draft.arguments([*full, *parts, "n_parts"]),
                    *draft.constant_arguments(),
                    "PART=part",
                    'BLOCK_R=tiles["BLOCK_R"]',
                    'BLOCK_C=tiles["BLOCK_C"]',
                    'num_warps=tiles["num_warps"]',
                ],
            ),
            call(
                f"{name}_kernel[(n_rows,)]",
                [
                    *tensors,
                    *parts,
                    *row_outs,
                    *numbers,
                    "n_rows",
                    "n_cols",
                    "n_parts",
                    *(t for _, t in strided),
                    *(f"{n}={t}" for n, t in constants),
                    "BLOCK_P=triton.next_power_of_2(n_parts)",
                ],
            ),
        ]
        whole = f"{kernel}\n\n\n{joined}\n\n\n{draft.wrapper(lines)}"
        nodes = (*self.operands.nodes, *self.operands.numbers())
        return self._helped(Piece(name, whole, nodes, _PART_TILES))

    def _pass(
        self, reductions: list[torch.fx.Node], start: str = "0", stop: str = "n_cols", full: Outputs | None = None
    ) -> list[str]:
        """One going over the columns, for reductions that depend on nothing later."""
        before: list[str] = []
        own = [member for member in reductions if self._state(member)]
        for member in own:
            before += self._reducer(member).start(self.states[member], "(BLOCK_R, BLOCK_C)")
        statements = self._full_statements([node_at(m.args[0]) for m in reductions], full or [], own)
        after: list[str] = []
        if full is None:
            for member in reductions:
                reduce = self._reducer(member)
                after += [line for line in reduce.finish(self.states[member]) if line not in after]
                self._end(member, reduce)
        else:
            for member in reductions:
                self._end(member, self._reducer(member))
        return [*self._loop(before, statements, start, stop), *after]

    def _loop(self, before: list[str], statements: list[str], start: str = "0", stop: str = "n_cols") -> list[str]:
        columns = [
            "col = (first + tl.arange(0, BLOCK_C))[None, :]",
            f"col_mask = col < {stop}",
            "mask = row_mask & col_mask",
            *decomposition(self.loops.columns, "col", "\n".join(statements)),
        ]
        inner = [f"    {line}" for line in [*columns, *statements]]
        return [*before, f"for first in range({start}, {stop}, BLOCK_C):", *inner]

    def _full_statements(
        self, wanted: Sequence[torch.fx.Node], stores: Outputs, reductions: Sequence[torch.fx.Node] = ()
    ) -> list[str]:
        """Statements that compute these values anew for a block of columns, then add and store them."""
        body = self._body()
        body.names.taken |= self.body.names.taken
        body.values = {n: v for n, v in self.body.values.items() if not self._is_full(n)}
        for member in self._needed([*wanted, *(node for node, _ in stores)]):
            body.member(member)
        for member in reductions:
            source = member.args[0]
            assert isinstance(source, torch.fx.Node)
            value = body.value(*self.cluster.outside(member).get(source, (source, ())))
            body.lines += self._reducer(member).step(self.states[member], value, "mask")
        body.stores(stores)
        self.body.names.taken |= body.names.taken
        return body.lines

    def _needed(self, wanted: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        """Full members the wanted values are computed from, in order."""
        needed: set[torch.fx.Node] = set()
        todo = [base_of(node) for node in wanted]
        while todo:
            node = todo.pop()
            if node in self.cluster.dims and self._is_full(node) and not is_reduction(node) and node not in needed:
                needed.add(node)
                todo += [base_of(n) for n in node.all_input_nodes]
        return [member for member in self.cluster.members if member in needed]

    def _is_full(self, node: torch.fx.Node) -> bool:
        return bool(set(flat(self.cluster.dims[node])) & set(self.cluster.reduced))

    def _row_members(self, level: int) -> list[str]:
        self.body.lines = []
        for member in self.cluster.members:
            if not is_reduction(member) and not self._is_full(member) and self.levels[member] == level:
                self.body.member(member)
        lines, self.body.lines = self.body.lines, []
        return lines

    def _reducer(self, member: torch.fx.Node) -> Reducer:
        found = reducer(member, "n_cols")
        return online(found) if self.pair is not None and member is self.pair[0] else found

    def _state(self, member: torch.fx.Node) -> bool:
        """Names the member's state; False when it has that of a twin, which differs in the last step only."""
        if member in self.states:
            return True
        for other, state in self.states.items():
            if name_of(other) == name_of(member) == "var_mean" and other.args[0] is member.args[0]:
                self.states[member] = state
                return False
        self.states[member] = self.body.names.unique(self.body.names.plain(member))
        return True

    def _begin(self, member: torch.fx.Node) -> tuple[Reducer, str]:
        self._state(member)
        source = member.args[0]
        assert isinstance(source, torch.fx.Node)
        return self._reducer(member), self.body.value(*self.cluster.outside(member).get(source, (source, ())))

    def _end(self, member: torch.fx.Node, reduce: Reducer) -> None:
        results = reduce.results(self.states[member])
        self.body.values[member] = results[0]
        if self.pair is not None and member is self.pair[0]:
            self.body.values[self.pair[1]] = total_of(results[0])
        for part in member.users:
            if part in self.cluster.dims and str(part.target) == "<built-in function getitem>":
                self.body.values[part] = results[int(part.args[1])]  # type: ignore[arg-type]

    def _grid(self) -> str:
        if not self.loops.apart:
            return '(triton.cdiv(n_rows, tiles["BLOCK_R"]),)'
        outer, inner = (total([group], self.draft.sizes) for group in self.loops.rows)
        return f'({outer} * triton.cdiv({inner}, tiles["BLOCK_R"]),)'

    def _rows(self) -> list[str]:
        if self.loops.apart:
            size = self.loops.rows[-1].size_name
            return [
                f"blocks = tl.cdiv({size}, BLOCK_R)",
                "outer = (tl.program_id(0) // blocks).to(tl.int64)",
                "inner = (tl.program_id(0) % blocks * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]",
                f"row_mask = inner < {size}",
            ]
        return [
            "row = (tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]",
            "row_mask = row < n_rows",
        ]

    def _columns(self) -> list[str]:
        return ["col_mask = col < n_cols", "mask = row_mask & col_mask"]

    def _complete(self, head: list[str], lines: list[str], columns: bool = True) -> list[str]:
        """With indices taken apart, and everything the kernel needs as parameters."""
        text = "\n".join(lines)
        if not self.loops.apart:
            head = [*head, *decomposition(self.loops.rows, "row", text)]
            self.draft.size("n_rows", total(self.loops.rows, self.draft.sizes))
        if columns:
            head += decomposition(self.loops.columns, "col", text)
        self.draft.size("n_cols", total(self.loops.columns, self.draft.sizes))
        self.draft.constants(inner_sizes(self.loops, self.draft.sizes, "\n".join([*head, text])))
        self.draft.more(number_arguments(self.operands), strides(self.operands, self.loops.groups, text))
        return [*head, *lines]

    def _helped(self, piece: Piece) -> Piece:
        helpers = (PRODUCT_HELPER,) if "multiply)" in piece.text or "multiply, " in piece.text else ()
        return Piece(piece.name, piece.text, piece.operands, piece.settings, helpers)

    def _whole_tiles(self) -> tuple[Setting, ...]:
        columns = 1 << math.ceil(math.log2(max(1, math.prod(group.size for group in self.loops.columns))))
        if self.loops.apart:
            shapes = [(64, 4 if columns <= 64 else 8), (128, 8), (32, 4), (128, 4), (64, 8)]
            return tuple({"BLOCK_R": r, "num_warps": w} for r, w in dict.fromkeys(shapes))
        rows = [max(1, elements // columns) for elements in (1024, 2048, 4096, 512)]
        warps = 4 if columns <= 2048 else 8 if columns <= 8192 else 16
        return tuple({"BLOCK_R": r, "num_warps": w} for r in dict.fromkeys(rows) for w in (warps, max(1, warps // 2)))

    def _looped_tiles(self, contiguous: bool) -> tuple[Setting, ...]:
        few = math.prod(group.size for group in self.loops.rows) < 128 * _ENOUGH
        shapes = [(64, 16, 4), (128, 8, 4), (64, 32, 8), (32, 32, 4), (128, 32, 8), (256, 8, 8)]
        if contiguous:
            # Many warps on few rows: the second reading may still find the row in the L2 cache.
            shapes = [(1, 2048, 8), (1, 4096, 8), (1, 1024, 4), (1, 4096, 16), (1, 8192, 32), (2, 1024, 8)]
        elif self.loops.apart:
            # A lane of its own for every row, so that lanes meet in no reduction, if that leaves work for all.
            shapes = [(128, 16, 4), (256, 16, 8), (128, 32, 4), (64, 32, 4), (256, 8, 4), (512, 8, 8), (32, 64, 4)]
        if few and not contiguous:
            shapes = [(32, 64, 4), (64, 32, 4), *shapes[:3], (32, 128, 8)]
        return tuple({"BLOCK_R": r, "BLOCK_C": c, "num_warps": w} for r, c, w in shapes)


_PART_TILES: tuple[Setting, ...] = tuple(
    {"BLOCK_R": 1, "BLOCK_C": c, "BLOCKS": b, "num_warps": w}
    for c, b, w in ((2048, 4, 8), (4096, 4, 8), (1024, 8, 4), (2048, 1, 8), (4096, 1, 8))
)


def _levels(cluster: Cluster) -> dict[torch.fx.Node, int]:
    """How many reductions deep each member is."""
    levels: dict[torch.fx.Node, int] = {}
    for member in cluster.members:
        deep = max((levels.get(_source(n), 0) for n in member.all_input_nodes), default=0)
        levels[member] = deep + 1 if is_reduction(member) else deep
        for part in member.users:
            if part in cluster.dims and part not in cluster.members:
                levels[part] = levels[member]
    return levels


def _source(node: torch.fx.Node) -> torch.fx.Node:
    return base_of(node)
