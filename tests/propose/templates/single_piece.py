"""Renders one operator through its family, alone, and runs the text in Triton's interpreter under the judge's eyes.

A case is a module and its inputs. All cases of a file run in one child process, since importing torch and triton is
what takes the time; the child checks bounds and poisons what is allocated, as the judge does.
"""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.decompositions import table
from autotriton.propose.compiler.templates.piece import NO_PLACES, Family, Piece, Places, Site

_CHILD = Path(__file__).with_name("run_pieces.py")
_table = functools.cache(table)  # the same for every case, and slow to make
_MODULES = ("scan", "rnn", "sort", "scatter")
_IMPORTS = """\
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice"""
_PACKAGE = "autotriton.propose.compiler.templates"


def family_of(node: torch.fx.Node) -> Family | None:
    for name in _MODULES:
        families = importlib.import_module(f"{_PACKAGE}.{name}").FAMILIES
        if node.target in families:
            return families[node.target]  # type: ignore[no-any-return]
    return None


class Stored:
    """An epilogue that stores the operator's result as it is."""

    def __init__(self, node: torch.fx.Node, sizes: tuple[str, ...]) -> None:
        self.node, self.sizes = node, sizes

    def formula(self, value: str) -> str:
        return value

    def operands(self) -> list[str]:
        return []

    def parameters(self) -> list[str]:
        return ["out_ptr", *(f"out_stride_{d}" for d in range(len(self.sizes)))]

    def arguments(self) -> list[str]:
        return ["out", *(f"out.stride({d})" for d in range(len(self.sizes)))]

    def allocations(self) -> list[str]:
        value = self.node.meta["val"]
        shape = ", ".join(self.sizes) + ","
        return [f"out = torch.empty(({shape}), dtype={value.dtype}, device=x.device)"]

    def lines(self, value: str, index: Sequence[str], mask: str, places: Places = NO_PLACES) -> list[str]:
        offset = " + ".join(f"({one}) * out_stride_{d}" for d, one in enumerate(index))
        return [f"tl.store(out_ptr + {offset}, {value}, mask={mask})"]

    def returned(self) -> str:
        return "out"


@dataclass(frozen=True)
class Case:
    """`function` calls exactly one operator of the family under test."""

    function: Callable[..., Any] | torch.nn.Module
    inputs: tuple[Any, ...]
    setting: int = 0
    rewrite: Callable[[torch.fx.Graph], Any] | None = None
    more: tuple[tuple[Any, ...], ...] = ()
    """Inputs of other sizes that the same text must serve."""


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def operator_of(case: Case) -> tuple[torch.fx.Node, torch.fx.Graph]:
    """The one node a family takes, in the graph as the engine exports it."""
    module = case.function if isinstance(case.function, torch.nn.Module) else _Module(case.function)
    program = torch.export.export(module.eval(), case.inputs, strict=False).run_decompositions(_table())
    if case.rewrite is not None:
        case.rewrite(program.graph)
    found = [node for node in program.graph.nodes if node.op == "call_function" and family_of(node) is not None]
    assert len(found) == 1, f"{len(found)} operators of a family in {program.graph}"
    return found[0], program.graph


def accepted(case: Case) -> bool:
    node, _ = operator_of(case)
    family = family_of(node)
    return family is not None and family.accepts(node)


def piece_of(case: Case, name: str) -> tuple[Piece, torch.fx.Node, torch.fx.Graph]:
    node, graph = operator_of(case)
    family = family_of(node)
    assert family is not None
    assert family.accepts(node)
    sizes = family.sizes(node)
    site = Site(node=node, name=name, epilogue=Stored(node, sizes), sizes=sizes)
    return family.render(site), node, graph


def source_of(piece: Piece, setting: int = 0) -> str:
    tiles = {piece.name: piece.settings[setting]} if piece.settings else {}
    parts = [
        "import torch\nimport triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice",
        f"TILES = {tiles!r}",
        *piece.helpers,
        piece.text,
    ]
    return "\n\n\n".join(part.strip() for part in parts) + "\n"


def run_all(cases: dict[str, Case], folder: Path) -> dict[str, Any]:
    """For each case a list with one entry per set of inputs: the wrapper's results, or the text of what it raised."""
    jobs = {}
    for name, case in cases.items():
        piece, _, graph = piece_of(case, name)
        (folder / f"{name}.py").write_text(source_of(piece, case.setting))
        jobs[name] = [_operands(piece, graph, inputs, case.function) for inputs in (case.inputs, *case.more)]
    torch.save(jobs, folder / "jobs.pt")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(_CHILD), str(folder)], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(torch.load(folder / "results.pt", weights_only=False))


def _operands(piece: Piece, graph: torch.fx.Graph, inputs: tuple[Any, ...], function: Any) -> list[Any]:
    """Values of the wrapper's arguments: parameters of the module and inputs, in the order of the placeholders."""
    parameters = list(function.state_dict().values()) if isinstance(function, torch.nn.Module) else []
    places = [node for node in graph.nodes if node.op == "placeholder"]
    flat = [leaf for value in inputs for leaf in (value if isinstance(value, tuple | list) else [value])]
    values = dict(zip(places, [*parameters, *flat], strict=True))
    return [values[operand] if isinstance(operand, torch.fx.Node) else operand for operand in piece.operands]
