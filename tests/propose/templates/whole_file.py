"""Emits files for small modules in this process, and runs them in Triton's interpreter, all in one child process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autotriton.propose.compiler.inductor.record import Request
from autotriton.propose.compiler.templates.engine import alternatives, emitted
from autotriton.propose.compiler.templates.export import Exported, export
from autotriton.propose.compiler.templates.file import Emitted
from autotriton.propose.compiler.templates.options import WAYS
from autotriton.types import Mode

_CHILD = Path(__file__).with_name("run_files.py")
_FRAME = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {inputs}):
{forward}


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Sample:
    """A module as a user writes it. `more` are further inputs for the same file, as expressions like `drawn`."""

    forward: str
    drawn: str
    inputs: str = "x"
    init: str = "pass"
    more: tuple[str, ...] = ()
    variant: str = ""
    """Another way to write it than the engine's first."""
    way: str = ""
    """One that is only taken where it is asked for."""

    @property
    def source(self) -> str:
        def indented(text: str) -> str:
            return "\n".join(f"        {line}" for line in text.split("\n"))

        return _FRAME.format(
            init=indented(self.init), inputs=self.inputs, forward=indented(self.forward), drawn=self.drawn
        )

    @property
    def request(self) -> Request:
        return Request(source=self.source, entry="Model", mode=Mode.TRAIN, tf32=False)

    def exported(self) -> Exported:
        return export(self.request)

    def emitted(self) -> Emitted:
        if self.variant:
            return alternatives(self.request, "sample")[self.variant]
        return emitted(self.request, "sample", WAYS[self.way])


def run_all(samples: dict[str, Sample], folder: Path) -> dict[str, Any]:
    """For each sample a list of (what the file returned, what torch returned), one per set of inputs; or the text of
    what was raised."""
    for name, sample in samples.items():
        (folder / f"{name}_task.py").write_text(sample.source)
        (folder / f"{name}.py").write_text(sample.emitted().code)
    torch.save({name: [sample.drawn, *sample.more] for name, sample in samples.items()}, folder / "jobs.pt")
    done = subprocess.run(
        [sys.executable, str(_CHILD), str(folder)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(torch.load(folder / "results.pt", weights_only=False))
