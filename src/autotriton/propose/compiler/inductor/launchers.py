"""The functions that launch kernels in the emitted file, one per kernel and grid, each with its entry in `TILES`.

Pure text. The kernel's pointers get the names of what they point to where it is launched once.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from autotriton.propose.compiler.inductor.kernels import Kernel, name_functions, rename_parameters
from autotriton.propose.compiler.inductor.record import Launch
from autotriton.propose.compiler.inductor.settings import Setting, Settings, formulas, settle

WIDTH = 116


@dataclass
class Launchers:
    """What has been launched so far."""

    taken: set[str]
    """Names that are in use."""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    """By Inductor's name, in the order of their first launch."""
    settings: dict[str, Settings] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The launching functions, by name."""
    _by_grid: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def launch(self, inductor_name: str, kernel: Kernel, launch: Launch, values: dict[str, str], once: bool) -> str:
        """The name of the function that launches the kernel like this. `values`: the parameters' arguments."""
        numbers = {name: int(value) for name, value in values.items() if value.lstrip("-").isdigit()}
        if inductor_name not in self.kernels:
            name_functions(kernel, self._free(kernel.name))
            self.kernels[inductor_name] = kernel
            if once:
                pointers = {name: value for name, value in values.items() if value.isidentifier()}
                rename_parameters(kernel, {name: f"{value}_ptr" for name, value in pointers.items()})
            self.settings[kernel.name] = settle(kernel, launch, numbers)
            return self._write(inductor_name, kernel, self.settings[kernel.name], kernel.name)
        first = self.settings[kernel.name]
        again = settle_grid(first, launch, numbers)
        known = self._by_grid.get((inductor_name, again.grid))
        return known or self._write(inductor_name, kernel, again, self._free(kernel.name))

    def _write(self, inductor_name: str, kernel: Kernel, settings: Settings, name: str) -> str:
        self.settings[name] = settings
        self._by_grid[inductor_name, settings.grid] = name
        self.texts[name] = _function(name, kernel, settings)
        return name

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken or f"{name}_kernel" in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken |= {name, f"{name}_kernel"}
        return name

    def functions(self, inductor_name: str) -> list[str]:
        """Those that launch this kernel."""
        return [name for (kernel, _), name in self._by_grid.items() if kernel == inductor_name]

    @property
    def choices(self) -> dict[str, tuple[Setting, ...]]:
        """For the tuner: every setting of every function that has several, its own first."""
        return {name: (found.own, *found.choices) for name, found in self.settings.items() if found.choices}


def settle_grid(first: Settings, launch: Launch, numbers: dict[str, int]) -> Settings:
    """Another launch of the same kernel: the sizes are in its body, so the grid is, as a rule, the same."""
    if not launch.config:
        return first
    grid, prefix = formulas(launch, numbers)
    return Settings(dict(first.own), first.choices, grid, prefix, first.lifted)


def _function(name: str, kernel: Kernel, settings: Settings) -> str:
    constexprs = {*settings.own} - {"num_warps", "num_stages"}
    parameters = [argument.arg for argument in kernel.main.args.args if argument.arg not in constexprs]
    names = [parameter.removesuffix("_ptr") for parameter in parameters]
    names = [
        parameter if name in ("tiles", "grid") else name for parameter, name in zip(parameters, names, strict=True)
    ]
    lines = [f'tiles = TILES["{name}"]', *settings.prefix]
    grid = ", ".join(settings.grid) + ("," if len(settings.grid) == 1 else "")
    call = f"{kernel.main.name}[({grid})]({', '.join([*names, '**tiles'])})"
    if len(call) > WIDTH:
        arguments = textwrap.fill(", ".join([*names, "**tiles"]), WIDTH - 8, break_long_words=False)
        call = f"{kernel.main.name}[({grid})](\n{textwrap.indent(arguments, '    ')}\n)"
    signature = f"def {name}({', '.join(names)}):"
    if len(signature) > WIDTH:
        wrapped = textwrap.fill(", ".join(names), WIDTH - 4, break_long_words=False)
        signature = f"def {name}(\n{textwrap.indent(wrapped, '    ')}\n):"
    return signature + "\n" + textwrap.indent("\n".join([*lines, call]), "    ")


def tiles(settings: dict[str, Settings]) -> str:
    """The literal the tuner edits."""
    lines = ["# What may be tuned: tile sizes, warps, stages.", "TILES = {"]
    for name, found in settings.items():
        values = [f'"{key}": {_literal(value)}' for key, value in found.own.items()]
        start = f'    "{name}": {{'
        line = f"{start}{', '.join(values)}}},"
        lines += [line] if len(line) <= WIDTH else [start, *(f"        {value}," for value in values), "    },"]
    return "\n".join([*lines, "}"])


def _literal(value: int | str | bool) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
