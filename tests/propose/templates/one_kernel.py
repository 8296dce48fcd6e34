"""Runs operators through one chosen renderer, all in one child process, and compares with torch in double precision."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.fx
from single_piece import Stored, source_of

from autotriton.propose.compiler.templates.decompositions import table
from autotriton.propose.compiler.templates.piece import Family, Piece, Site

_CHILD = Path(__file__).with_name("run_pieces.py")
_table = functools.cache(table)  # the same for every trial, and slow to make
_exported: dict[tuple[Any, ...], tuple[Trial, torch.fx.Graph]] = {}
"""Trials that differ in how they are rendered share a graph; the trial is held so that its ids stay its own."""


@dataclass(frozen=True)
class Trial:
    """One operator on these inputs. `render` is None for the family's own choice."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    render: Callable[[Site], Piece] | None = None
    setting: int = 0
    tf32: bool = False
    more: tuple[tuple[Any, ...], ...] = ()
    """Inputs with other batch sizes for the same text."""


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def node_of(trial: Trial, families: dict[Any, Family]) -> tuple[torch.fx.Node, torch.fx.Graph]:
    key = (id(trial.function), *map(id, trial.inputs))
    if key not in _exported:
        program = torch.export.export(_Module(trial.function), trial.inputs, strict=False)
        _exported[key] = trial, program.run_decompositions(_table()).graph
    graph = _exported[key][1]
    found = [node for node in graph.nodes if node.target in families]
    assert len(found) == 1, f"{len(found)} operators of the family in {graph}"
    return found[0], graph


def piece_of(trial: Trial, name: str, families: dict[Any, Family]) -> tuple[Piece, torch.fx.Graph]:
    node, graph = node_of(trial, families)
    family = families[node.target]
    assert family.accepts(node)
    sizes = family.sizes(node)
    whole = isinstance(node.meta["val"], tuple)  # nothing is fused behind several results
    site = Site(node, name, None if whole else Stored(node, sizes), sizes, trial.tf32)  # type: ignore[arg-type]
    return (trial.render or family.render)(site), graph


def run_all(trials: dict[str, Trial], families: dict[Any, Family], folder: Path) -> dict[str, Any]:
    """For each trial a list, one entry per set of inputs: the wrapper's result, or the text of what it raised."""
    jobs = {}
    for name, trial in trials.items():
        piece, graph = piece_of(trial, name, families)
        (folder / f"{name}.py").write_text(source_of(piece, trial.setting))
        places = [node for node in graph.nodes if node.op == "placeholder"]
        sets = [dict(zip(places, inputs, strict=True)) for inputs in (trial.inputs, *trial.more)]
        jobs[name] = [[_value(operand, given) for operand in piece.operands] for given in sets]
    torch.save(jobs, folder / "jobs.pt")
    done = subprocess.run(
        [sys.executable, str(_CHILD), str(folder)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(torch.load(folder / "results.pt", weights_only=False))


def _value(operand: Any, given: dict[torch.fx.Node, Any]) -> Any:
    """What the wrapper is called with; views in front of the operator are taken here."""
    if not isinstance(operand, torch.fx.Node):
        return operand
    if operand in given:
        return given[operand]
    return operand.target(*(_value(arg, given) for arg in operand.args), **operand.kwargs)  # type: ignore[operator]


def relative_error(found: Any, expected: Any) -> float:
    """Largest error over the largest expected value, in double precision."""
    return float((found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30))


def exact(trial: Trial, inputs: tuple[Any, ...]) -> Any:
    """The operator on the same inputs in double precision."""
    return trial.function(*(value.double() if isinstance(value, torch.Tensor) else value for value in inputs))
