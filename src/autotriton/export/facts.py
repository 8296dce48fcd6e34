"""What has to be known about a task to write its operator. Learnt in a child process, and plain data from there on."""

from __future__ import annotations

from autotriton.types import Record


class Argument(Record):
    """One tensor or number a call passes."""

    name: str
    """An identifier: `x`, `states_0`."""
    type: str
    """As the operator declares it: Tensor, float, int, bool or str."""
    expression: str
    """How it is read from the parameters of `forward`: `x`, `states[0]`."""


class Held(Record):
    """One parameter, buffer or tensor attribute."""

    names: tuple[str, ...]
    """Dotted, `layers.0.weight`; several where layers share it."""
    argument: str
    """The operator's argument: `layers_0_weight`."""
    expression: str
    """`self.layers[0].weight`."""
    kernel: tuple[str, ...]
    """Its names in the kernel file's module, which may have no use for it."""


class Facts(Record):
    is_function: bool
    """The reference is a function, not a module."""
    kernel_entry: str
    """The class or function of the kernel file."""
    kernel_is_function: bool
    signature: str
    """Parameters of `forward`, as source."""
    fixed: dict[str, str]
    """Parameters that are not arguments of the operator: name and the literal they have to be."""
    inputs: tuple[Argument, ...]
    call: str
    """How the model is called with them: `x, states=(states_0, states_1)`."""
    state: tuple[Held, ...]
    changed: tuple[str, ...]
    """Arguments that are buffers forward changes."""
    changed_inputs: tuple[str, ...]
    """Arguments that are inputs forward changes."""
    orders: tuple[tuple[int, ...], ...]
    """For each result its axes from the fastest to the slowest in memory."""
    mode_matters: bool
    """The module computes something else in the other of its two modes."""
    returned: str
    """The value `forward` returns, over `results`."""
    no_gradients: str | None
    """Why there are none; None when there are."""
