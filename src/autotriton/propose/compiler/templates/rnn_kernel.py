"""The kernel of a recurrence: one program per tile of hidden units, through as many steps as a launch is given.

What must stay true: a program reads a hidden state only after all programs of the launch have finished the step that
wrote it. Within a launch they wait for each other (`wait_for_all`), which needs all of them to run at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

from autotriton.propose.compiler.templates.rnn_cells import Cell

_CONSTANTS = ", ".join(f"{name}: tl.constexpr" for name in ("BLOCK_B", "BLOCK_H", "SPLIT", "BLOCK_K"))
WAIT = dedent(
    '''\
    @triton.jit
    def wait_for_all(arrived_ptr, expected):
        """Returns when `expected` arrivals were counted: everything stored before them is then visible."""
        tl.debug_barrier()
        tl.atomic_add(arrived_ptr, 1, sem="release")
        while tl.atomic_add(arrived_ptr, 0, sem="acquire") < expected:
            pass
        tl.debug_barrier()
    '''
)


@dataclass(frozen=True)
class Form:
    """Which text is wanted."""

    name: str
    cell: Cell
    has_bias: bool
    directions: int
    batch_first: bool
    precision: str
    on_chip: bool = True
    """A program's weights fit on its multiprocessor, for all steps."""


class RecurrentKernel:
    """Lines of the recurrence. A *cell* is a layer of the wave, or a direction of one layer."""

    def __init__(self, form: Form, wave: bool) -> None:
        self.cell, self.has_bias, self.precision, self.wave = form.cell, form.has_bias, form.precision, wave
        self.directions, self.on_chip = form.directions, form.on_chip
        self.inputs = [("w", "w_hh", "h"), ("v", "w_ih", "below")] if wave else [("w", "w_hh", "h")]

    def text(self, name: str) -> str:
        pointers = ["gates_ptr", "w_hh_ptr", *(["w_ih_ptr"] if self.wave else [])]
        pointers += ["b_ih_ptr", "b_hh_ptr"] if self.has_bias else []
        pointers += ["h_ptr", *(["c_ptr"] if self.cell.has_memory else []), "arrived_ptr"]
        numbers = ["first_tick", "last_tick", "steps", "batch", "hidden"]
        what = "layers run as a wave, one step apart" if self.wave else "one layer, every direction of it"
        lines = [
            f'"""{self.cell.formula}',
            "",
            f"where {', '.join(self.cell.gates)} = x @ w_ih.T + b_ih + h @ w_hh.T + b_hh; {what}.",
            "Each program owns BLOCK_H hidden units of BLOCK_B rows of the batch; its warps divide the sum over h.",
            '"""',
            *self._places(),
            *self._weights(),
            *self._biases(),
            *self._memory(),
            "for tick in range(first_tick, last_tick):",
            *indented(self._tick()),
            "    if tick < last_tick - 1:",
            "        programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)",
            "        wait_for_all(arrived_ptr, (tick - first_tick + 1) * programs)",
        ]
        if self.cell.has_memory:
            lines.append("tl.store(c_ptr + c_at, c, mask=exists)")
        # One binary for every step, where steps are launched one by one.
        decorator = '@triton.jit(do_not_specialize=["first_tick", "last_tick"])'
        head = f"{decorator}\ndef {name}({', '.join([*pointers, *numbers])},\n    {_CONSTANTS}):\n"
        return head + "\n".join(indented(lines)) + "\n"

    def _places(self) -> list[str]:
        return [
            f"{self._number} = tl.program_id(2).to(tl.int64)",
            "rows = tl.program_id(1) * BLOCK_B + tl.arange(0, BLOCK_B)",
            "units = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)",
            "exists = (rows[:, None] < batch) & (units[None, :] < hidden)",
            "# The sum over the hidden state in SPLIT parts, one for every warp: a batch of SPLIT small products.",
            "k = (tl.arange(0, SPLIT) * BLOCK_K)[:, None] + tl.arange(0, BLOCK_K)[None, :]",
            "k_exists = (rows[None, :, None] < batch) & (k[:, None, :] < hidden)",
            f"k_at = rows[None, :, None] * {self._width} + k[:, None, :]",
            "w_exists = (k[:, :, None] < hidden) & (units[None, None, :] < hidden)",
            f"w_at = ({self._number} * {self._gates} * hidden + units[None, None, :]) * hidden + k[:, :, None]",
            f"own_at = rows[:, None] * {self._width} + units[None, :]",
        ]

    @property
    def _number(self) -> str:
        return "layer" if self.wave else "direction"

    @property
    def _gates(self) -> int:
        return len(self.cell.gates)

    @property
    def _width(self) -> str:
        return "hidden" if self.wave or self.directions == 1 else f"({self.directions} * hidden)"

    def _weights(self) -> list[str]:
        if not self.on_chip:
            return []
        lines = ["# Loaded once: the compiler keeps them on the chip over all steps."]
        for letter, name, _ in self.inputs:
            mask = "w_exists & (layer > 0)" if letter == "v" else "w_exists"
            start = f"w_at - {self._gates} * hidden * hidden" if letter == "v" else "w_at"
            if letter == "v":
                lines.append("# The first layer of the wave has its inputs projected already.")
            for g, gate in enumerate(self.cell.gates):
                place = f"{name}_ptr + {start}" + _times(g, "hidden * hidden")
                lines.append(f"{letter}_{gate} = tl.load({place}, mask={mask}, other=0.0)")
        return lines

    def _biases(self) -> list[str]:
        if not self.has_bias:
            return []
        lines = [f"bias_at = {self._number} * {self._gates} * hidden + units", "unit_exists = units < hidden"]
        for g, gate in enumerate(self.cell.gates):
            loads = [
                f"tl.load({side} + bias_at{_times(g, 'hidden')}, mask=unit_exists, other=0.0).to(tl.float32)[None, :]"
                for side in ("b_ih_ptr", "b_hh_ptr")
            ]
            if gate in self.cell.apart:
                lines += [f"bias_{gate}_x = {loads[0]}", f"bias_{gate}_h = {loads[1]}"]
            else:
                lines += [f"bias_{gate} = {loads[0]}", f"bias_{gate} += {loads[1]}"]
        return lines

    def _memory(self) -> list[str]:
        if not self.cell.has_memory:
            return []
        return [
            f"c_at = ({self._number} * batch + rows[:, None]) * hidden + units[None, :]",
            "c = tl.load(c_ptr + c_at, mask=exists, other=0.0)",
        ]

    def _tick(self) -> list[str]:
        if not self.wave:
            # direction 1 goes through the steps backwards
            return ["t = tick + direction * (steps - 1 - 2 * tick)", *self._step()]
        return ["t = tick - layer", "if (t >= 0) & (t < steps):", *indented(self._step())]

    def _step(self) -> list[str]:
        lines = [
            *self._pointers(),
            *self._gate_inputs(),
            *(self._loaded_states() if self.on_chip else self._streamed()),
        ]
        for gate in self.cell.gates:
            lines += self._sum(gate)
        if "h_old" in " ".join(self.cell.step):
            old = 'tl.load(h_row + own_at, mask=exists, other=0.0, cache_modifier=".cg")'
            lines.append(f"h_old = {old}.to(tl.float32)")
        return [*lines, *self.cell.step, "tl.store(new_row + own_at, h_new, mask=exists)"]

    def _loaded_states(self) -> list[str]:
        lines = ["# .cg: other programs wrote this, and the cache of this multiprocessor may not know."]
        for _, _, source in self.inputs:
            mask = "k_exists & (layer > 0)" if source == "below" else "k_exists"
            lines.append(f'{source} = tl.load({source}_row + k_at, mask={mask}, other=0.0, cache_modifier=".cg")')
        return lines

    def _streamed(self) -> list[str]:
        """Weights that do not fit on the chip pass by in blocks, at every step."""
        inner = [
            "left = hidden - start",
            "some_h = (rows[None, :, None] < batch) & (k[:, None, :] < left)",
            'h = tl.load(h_row + k_at + start, mask=some_h, other=0.0, cache_modifier=".cg")',
            "some_w = (k[:, :, None] < left) & (units[None, None, :] < hidden)",
        ]
        for g, gate in enumerate(self.cell.gates):
            weight = f"tl.load(w_hh_ptr + w_at + start{_times(g, 'hidden * hidden')}, mask=some_w, other=0.0)"
            inner.append(f'sum_{gate} = tl.dot(h, {weight}, sum_{gate}, input_precision="{self.precision}")')
        zeros = "tl.zeros((SPLIT, BLOCK_B, BLOCK_H), tl.float32)"
        starts = [f"sum_{gate} = {zeros}" for gate in self.cell.gates]
        return [*starts, "for start in range(0, hidden, SPLIT * BLOCK_K):", *indented(inner)]

    def _pointers(self) -> list[str]:
        if self.wave:
            return [
                "h_row = h_ptr + (layer * (steps + 1) + t) * batch * hidden",
                "new_row = h_row + batch * hidden",
                "below_row = h_ptr + ((layer - 1) * (steps + 1) + t + 1) * batch * hidden",
            ]
        # Row 0 holds the first state of the forward direction, row steps + 1 that of the backward one.
        row = "(t + 2 * direction)" if self.directions == 2 else "t"
        column = " + direction * hidden" if self.directions == 2 else ""
        return [
            f"h_row = h_ptr + {row} * batch * {self._width}{column}",
            f"new_row = h_ptr + (t + 1) * batch * {self._width}{column}",
        ]

    def _gate_inputs(self) -> list[str]:
        step = "t" if self.wave else f"({self._number} * steps + t)"
        lines = [f"gates_at = ({step} * batch + rows[:, None]) * {self._gates} * hidden + units[None, :]"]
        mask = "exists & (layer == 0)" if self.wave else "exists"
        for g, gate in enumerate(self.cell.gates):
            name = f"{gate}_x" if gate in self.cell.apart else gate
            lines.append(f"{name} = tl.load(gates_ptr + gates_at{_times(g, 'hidden')}, mask={mask}, other=0.0)")
        return lines

    def _sum(self, gate: str) -> list[str]:
        dot = f'input_precision="{self.precision}"'
        lines = [f"part = tl.dot(h, w_{gate}, {dot})" if self.on_chip else f"part = sum_{gate}"]
        if gate in self.cell.apart:
            lines.append(f"{gate}_h = tl.sum(part, axis=0)" + (f" + bias_{gate}_h" if self.has_bias else ""))
            if self.wave:
                lines.append(f"{gate}_x += tl.sum(tl.dot(below, v_{gate}, {dot}), axis=0)")
            return [*lines, *([f"{gate}_x += bias_{gate}_x"] if self.has_bias else [])]
        if self.wave:
            lines.append(f"part = tl.dot(below, v_{gate}, part, {dot})")
        return [*lines, f"{gate} += tl.sum(part, axis=0)" + (f" + bias_{gate}" if self.has_bias else "")]


def _times(count: int, unit: str) -> str:
    return f" + {count} * {unit}" if count > 1 else f" + {unit}" if count else ""


def indented(lines: list[str]) -> list[str]:
    return [indent(line, "    ") for line in lines]
