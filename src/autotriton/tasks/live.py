"""A live module becomes a Task: what was learnt about the instance, written as a file with `Model` and `get_inputs`.

Must stay true: the source stands alone. It holds no weights and imports nothing but torch, so it does not matter where
the user's class is defined or how the instance came about. No torch is imported here; `autotriton.live` does the
looking and hands over text.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from autotriton.types import Mode, Task

_HEADER = '''"""{title} as a task, written from a live instance; `forward` takes the tensors among its inputs.

Parameters and buffers have the instance's names, shapes and types; their values here are drawn, not the instance's.
"""
'''
_TABLE = '''def table(shape, dtype, text):
    """A tensor whose exact values matter: a mask, a permutation, lengths."""
    raw = bytearray(zlib.decompress(base64.b85decode(text)))
    return torch.frombuffer(raw, dtype=dtype).reshape(shape).clone()
'''


@dataclass(frozen=True)
class Table:
    """Exact values of a buffer, handed to the constructor instead of being written into it."""

    name: str
    """The buffer's dotted name, and its key among the tables."""
    value: str


@dataclass(frozen=True)
class LiveProgram:
    """A live instance as pieces of source."""

    title: str
    constructor: tuple[str, ...]
    """Statements of `__init__` after `super().__init__()`; exact buffers are `tables["name"]` in them."""
    arguments: tuple[str, ...]
    """Parameters of `forward` after `self`, one for each tensor input."""
    body: tuple[str, ...]
    """Statements of `forward`, the last of them its return."""
    inputs: tuple[str, ...]
    """An expression for each argument."""
    tables: tuple[Table, ...] = ()
    base: str = "nn.Module"
    """What `Model` derives from: a container, where the instance's children have numbers for names."""

    def with_inputs(self, inputs: tuple[str, ...]) -> LiveProgram:
        return replace(self, inputs=inputs)


def to_task(program: LiveProgram, *, mode: Mode, tf32: bool = False) -> Task:
    """The task a proposer and the judge work on."""
    return Task(id=program.title, source=to_source(program), mode=mode, tf32=tf32, tags=("live",))


def to_source(program: LiveProgram) -> str:
    parts = [
        _HEADER.format(title=program.title) + "\n" + _imports(program),
        _TABLE if _needs_tables(program) else "",
        _model(program),
        _get_inputs(program),
        _get_init_inputs(program),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _needs_tables(program: LiveProgram) -> bool:
    return bool(program.tables) or any("table(" in text for text in program.inputs)


def _imports(program: LiveProgram) -> str:
    lines = ["import torch", "import torch.nn.functional as F", "from torch import nn"]
    return "\n".join(["import base64", "import zlib", "", *lines] if _needs_tables(program) else lines)


def _model(program: LiveProgram) -> str:
    tables = ", tables" if program.tables else ""
    constructor = ["super().__init__()", *program.constructor]
    signature = ", ".join(("self", *program.arguments))
    return "\n".join(
        [
            f"class Model({program.base}):",
            f"    def __init__(self{tables}):",
            textwrap.indent("\n".join(constructor), " " * 8),
            "",
            f"    def forward({signature}):",
            textwrap.indent("\n".join(program.body), " " * 8),
        ]
    )


def _get_inputs(program: LiveProgram) -> str:
    lines = [f"    {name} = {value}" for name, value in zip(program.arguments, program.inputs, strict=True)]
    return "\n".join(["def get_inputs():", *lines, f"    return [{', '.join(program.arguments)}]"])


def _get_init_inputs(program: LiveProgram) -> str:
    if not program.tables:
        return "def get_init_inputs():\n    return []"
    entries = [f"        {table.name!r}: {table.value}," for table in program.tables]
    return "\n".join(["def get_init_inputs():", "    tables = {", *entries, "    }", "    return [tables]"])
