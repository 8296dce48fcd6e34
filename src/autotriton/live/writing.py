"""A captured module as a task, checked against the module itself before anybody works on it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from autotriton.errors import TaskError
from autotriton.live import values
from autotriton.live.calls import CallSpec
from autotriton.live.capture import PREFIX, Captured
from autotriton.live.state import CONSTANT, places, write_constructor
from autotriton.live.statements import print_graph
from autotriton.tasks.live import LiveProgram


@dataclass(frozen=True)
class Written:
    program: LiveProgram
    constants: dict[str, Tensor]
    """Tensors the graph holds that are nobody's attribute, by the names of the buffers they are in `program`."""
    raw: bool
    """Operators are spelled by their full names."""


def write(
    module: nn.Module, call: CallSpec, tensors: list[Tensor], captured: Captured, *, raw: bool = False
) -> Written:
    """The module as source. `raw` spells every operator by its full name."""
    constants = _constants(module, captured)
    constructor = write_constructor(module, dict(constants.values()))
    names, given = {}, iter(call.names)
    for spec in captured.program.graph_signature.input_specs:
        target = (spec.target or "").removeprefix(PREFIX)
        if spec.kind is InputKind.USER_INPUT:
            names[spec.arg.name] = next(given)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            known = constants[target][0] if target in constants else target
            names[spec.arg.name] = constructor.paths[known]
        else:
            raise TaskError(f"{type(module).__name__} holds an object the graph uses as it is ({target})")
    body = print_graph(captured.program.graph_module, names, f"{call.names[0]}.device", raw=raw)
    program = LiveProgram(
        title=type(module).__name__,
        constructor=tuple(constructor.statements),
        arguments=call.names,
        body=tuple(body),
        inputs=tuple(values.drawn(tensor) for tensor in tensors),
        tables=tuple(constructor.tables),
        base=constructor.base,
    )
    return Written(program, dict(constants.values()), raw)


def _constants(module: nn.Module, captured: Captured) -> dict[str, tuple[str, Tensor]]:
    """Target in the graph -> the buffer it becomes and its value, for tensors that are no attribute of the module."""
    known = places(module)
    found: dict[str, tuple[str, Tensor]] = {}
    for spec in captured.program.graph_signature.input_specs:
        target = (spec.target or "").removeprefix(PREFIX)
        if spec.kind is InputKind.CONSTANT_TENSOR and target not in known:
            value = captured.program.constants[str(spec.target)]
            if not isinstance(value, Tensor):
                raise TaskError(f"{type(module).__name__} holds a {type(value).__name__} the graph uses as it is")
            name = CONSTANT.format(len(found))
            while name in known:
                name += "_"
            found[target] = (name, value)
    return found
