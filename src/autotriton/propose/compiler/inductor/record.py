"""What the capturing child process hands back: Inductor's wrapper and everything needed to read it, as data."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from autotriton.types import Mode, Record


class Request(Record):
    """What the child is asked to capture."""

    source: str
    entry: str
    mode: Mode
    tf32: bool
    import_root: str | None = None


class CaptureRequest(Request):
    """What the inductor engine's child is asked for beyond that."""

    on_gpu: bool = True
    """Whether kernels may be compiled, run and timed on a GPU where there is one. Nobody else should be timing then."""
    skip: tuple[str, ...] = ()
    """Variants that are known already."""
    most: int = 1
    """Captures after which to stop."""
    seconds: float = 180.0
    """After half of this no further variant is begun."""


class Origin(StrEnum):
    """Where an argument of the graph comes from."""

    INPUT = "input"
    NUMBER = "number"
    """An input that is a Python number, given to the kernels as a tensor without dimensions."""
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    """A tensor `forward` writes out itself."""


class Argument(Record):
    """One tensor the graph takes, in the order of the wrapper's arguments."""

    origin: Origin
    name: str
    """As a reader knows it: `x`, `linear.weight`."""
    expression: str
    """How `forward` reads it: `x`, `self.linear.weight`."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


class Launch(Record):
    """How Inductor would launch one kernel: its configuration, and its grid as formulas over arguments and settings."""

    config: dict[str, int | bool | str]
    num_warps: int
    num_stages: int
    grid: tuple[str, str, str]
    prefix: tuple[str, ...] = ()
    """Assignments the grid formulas rely on."""
    extra_arguments: tuple[str, ...] = ()
    """Names of trailing call arguments that are only for the grid."""
    types: dict[str, str] = Field(default_factory=dict)
    """Triton's types of the parameters: `*fp32`, `i32`."""
    alternatives: tuple[dict[str, int | bool | str], ...] = ()
    """Further settings Inductor's heuristics would try, `num_warps` and `num_stages` included; best guess first."""


class Capture(Record):
    """One traced and lowered module."""

    variant: str = "default"
    """Which of the choices in `variants.py` it was lowered with."""
    measured: bool = False
    """Whether templates and settings were chosen by timing them on a GPU."""

    wrapper: str
    helpers: str
    """Source of Inductor's helper functions for kernels."""
    launches: dict[str, Launch]
    arguments: tuple[Argument, ...]
    signature: str
    """Parameters of `forward`, without self."""
    fixed: dict[str, str] = Field(default_factory=dict)
    """Inputs that are not tensors: expression and the literal the graph was traced with."""
    output: str
    """The value `forward` returns; `_outN` stands for the graph's N-th output."""
    aliases: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """Outputs that are memory of an argument: `_outN` -> the argument's name, and the view with `{}` for it."""
    torch_version: str


class Captures(Record):
    """The child's answer: one capture per variant that makes a difference, best guess first."""

    captures: tuple[Capture, ...]
    tried: tuple[str, ...]
    """Variants that need not be asked for again."""
    notes: tuple[str, ...] = ()
    """Why variants are missing, one line each."""
