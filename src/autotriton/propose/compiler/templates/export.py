"""A task's module as a graph of whole operators: `linear`, `conv2d`, `layer_norm` taken apart only where that helps.

Runs in the capturing child process only, and executes the task's own source. No memory is touched for weights or
inputs: the model is built on fake tensors and exported over untouched allocations. The leading dimension of the inputs
is symbolic where the program allows it, so that the emitted file serves every batch size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.nn.modules.conv import _ConvNd

from autotriton.propose.compiler.inductor.program import (
    Unsupported,
    bind,
    build,
    call_arguments,
    input_leaves,
    is_number,
    load,
    returned,
    signature,
    state_path,
)
from autotriton.propose.compiler.inductor.record import Request
from autotriton.propose.compiler.templates import conv_call, pool, pool_call
from autotriton.propose.compiler.templates.decompositions import table
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.families import family_of
from autotriton.propose.compiler.templates.piece import node_at
from autotriton.propose.compiler.templates.traceable import recurrent_shapes, traceable
from autotriton.propose.compiler.templates.views import is_view

_MAX_CONSTANT = 256
_MODEL = "model"
_RETURNED: list[str] = []
"""What the last traced forward returned; export gives a module back as it was, so that it cannot hold this itself."""


@dataclass
class Exported:
    """The graph, and how `forward` supplies and receives its tensors."""

    graph: torch.fx.Graph
    sources: dict[str, str]
    """Placeholder -> how `forward` reads it: `x`, `self.fc.weight`."""
    signature: str
    fixed: dict[str, str]
    """Inputs that are not tensors: expression and the literal the graph holds for."""
    returned: str
    """The value `forward` returns; `_out0`, `_out1`, ... stand for `outputs`."""
    outputs: list[torch.fx.Node]
    writes: list[tuple[str, torch.fx.Node]] = field(default_factory=list)
    """Buffers and inputs changed in place: how `forward` reads them, and their new value."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Placeholders that are inputs of `forward` -> their expression."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Those of them that are Python numbers, which the kernels read as tensors without dimensions -> their type."""


class _Flat(nn.Module):
    """The model over a flat list of tensors, which is what `torch.export` numbers plainly."""

    def __init__(self, model: Callable[..., Any], leaves: list[Any], spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.model = model
        self._leaves, self._spec = leaves, spec

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        args, kwargs = pytree.tree_unflatten(
            [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves], self._spec
        )
        found: list[Tensor] = []
        _RETURNED[:] = [returned(self.model(*args, **kwargs), found)]
        if not found:
            raise Unsupported("forward returns no tensor")
        return tuple(found)


def export(request: Request, symbolic: bool = True) -> Exported:
    """With numbers among the inputs live where that works, else fixed at their values."""
    with traceable():
        return _export(request, symbolic)


def _export(request: Request, symbolic: bool) -> Exported:
    module = load(request)
    model, args, kwargs = _built(request, module)
    bound = bind(model, args, kwargs)
    leaves, spec = pytree.tree_flatten((bound.args, bound.kwargs))
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        raise Unsupported("forward takes no tensor")
    fixed = _with_numbers(model, bound, leaves, spec, live=False, symbolic=symbolic)
    if not any(is_number(leaf) for leaf in leaves):
        return fixed
    try:
        live = _with_numbers(model, bound, leaves, spec, live=True, symbolic=symbolic)
    except Exception:  # noqa: BLE001 - a number that decides shapes or branches fails in as many ways as there are uses
        return fixed
    return live if _kinds(live) == _kinds(fixed) else fixed


def _with_numbers(
    model: Any, bound: inspect.BoundArguments, leaves: list[Any], spec: pytree.TreeSpec, live: bool, symbolic: bool
) -> Exported:
    names, fixed, numbers = _names(bound, live)
    given = [_as_tensor(leaf, live) for leaf in leaves]
    tensors = tuple(leaf for leaf in given if isinstance(leaf, Tensor))
    flat = _Flat(model, given, spec)
    flat.training = getattr(model, "training", True)
    if not symbolic:
        fixed |= {f"tuple({n}.shape)": str(tuple(t.shape)) for n, t in zip(names, tensors, strict=True) if t.dim()}
    exported = _read(_exported(flat, tensors, symbolic), model, names, fixed)
    exported.numbers = {name: numbers[text] for name, text in exported.inputs.items() if text in numbers}
    return exported


def _as_tensor(leaf: Any, live: bool) -> Any:
    if isinstance(leaf, Tensor):
        return _untouched(leaf)
    return torch.full((), leaf, dtype=_number_type(leaf)) if live and is_number(leaf) else leaf


def _number_type(value: float) -> torch.dtype:
    return torch.float32 if isinstance(value, float) else torch.int64


def _kinds(exported: Exported) -> list[tuple[Any, ...]]:
    return [(node.meta["val"].dim(), node.meta["val"].dtype) for node in exported.outputs]


def _built(request: Request, module: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """On fake tensors; for real where the constructor reads values, `torch.linspace(0, 1, n)[i].item()`."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            model, (args, kwargs) = _made(request, module)
    except DataDependentOutputException:
        with torch.no_grad():
            model, (args, kwargs) = _made(request, module)
    if isinstance(model, nn.Module):
        _hold_real_tensors(model)
    return model, args, kwargs


def _made(request: Request, module: Any) -> tuple[Any, tuple[tuple[Any, ...], dict[str, Any]]]:
    return build(request, module), call_arguments(module.get_inputs(), pair=(tuple,))


def _hold_real_tensors(model: nn.Module) -> None:
    """Fake parameters, buffers and plain attributes become untouched allocations, shared ones staying shared."""
    seen: dict[int, Tensor] = {}

    def real(tensor: Tensor) -> Tensor:
        if id(tensor) not in seen:
            made = _untouched(tensor)
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            seen[id(tensor)] = made
        return seen[id(tensor)]

    for module in model.modules():
        stores: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in stores:
            held.update({name: real(tensor) for name, tensor in held.items() if isinstance(tensor, FakeTensor)})
        for name, value in vars(module).items():
            if isinstance(value, FakeTensor):
                setattr(module, name, real(value))
            elif isinstance(value, list) and any(isinstance(item, FakeTensor) for item in value):
                setattr(module, name, [real(item) if isinstance(item, FakeTensor) else item for item in value])


def _untouched(tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.strided or tensor.dtype.is_complex:
        raise Unsupported(f"a {tensor.dtype} tensor in layout {tensor.layout}; only dense real tensors are supported")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _exported(flat: _Flat, tensors: tuple[Tensor, ...], symbolic: bool) -> torch.export.ExportedProgram:
    """With symbolic leading dimensions where that works, else as the example is."""
    with recurrent_shapes():
        program = _traced(flat, tensors, symbolic)
        taken_apart: torch.export.ExportedProgram = program.run_decompositions(table())
    if refused := _refused(taken_apart.graph):
        taken_apart = program.run_decompositions(table(apart=refused))
    _keep_layouts(program, taken_apart)
    return taken_apart


def _traced(flat: _Flat, tensors: tuple[Tensor, ...], symbolic: bool) -> torch.export.ExportedProgram:
    leading = tuple({0: torch.export.Dim.AUTO} if symbolic and t.dim() and t.shape[0] > 1 else None for t in tensors)
    try:
        return torch.export.export(flat, tensors, dynamic_shapes=(leading,), strict=False)
    except Unsupported:
        raise
    except Exception:  # noqa: BLE001 - a program that is particular about its sizes fails in as many ways as there are
        return torch.export.export(flat, tensors, strict=False)


def _refused(graph: torch.fx.Graph) -> set[str]:
    """Operators kept whole for a family that does not take them as they are here: an einsum of three operands."""
    found = set()
    for node in graph.nodes:
        family = family_of(node) if node.op == "call_function" else None
        if family is not None and not family.accepts(node):
            found.add(name_of(node))
    return found


def _keep_layouts(program: torch.export.ExportedProgram, taken_apart: torch.export.ExportedProgram) -> None:
    """Results in the memory layout of the operator that made them, which its parts may not have: softmax of a
    transposed tensor is contiguous, a quotient of two is not.
    """
    before = program.graph.output_node().args[0]
    after = taken_apart.graph.output_node().args[0]
    for old, new in zip(reversed(before), reversed(after), strict=False):
        _keep_layout(old, new)


def _keep_layout(old: torch.fx.Node, new: torch.fx.Node) -> None:
    """Through views of a result, `softmax(x).t()`, to the result itself."""
    pairs = [(old, new)]
    while is_view(new) and len(new.users) == 1 and old.op == "call_function" and old.args:
        if not isinstance(old.args[0], torch.fx.Node):
            return
        old, new = old.args[0], node_at(new.args[0])
        pairs.append((old, new))
    for before, after in pairs:
        value, wanted = after.meta.get("val"), before.meta.get("val")
        if not (isinstance(value, Tensor) and isinstance(wanted, Tensor) and value.shape == wanted.shape):
            return
    if new.op == "call_function" and len(new.users) == 1 and new.meta["val"].stride() != old.meta["val"].stride():
        for before, after in pairs:
            after.meta["val"] = before.meta["val"]


def _read(program: torch.export.ExportedProgram, model: Any, names: list[str], fixed: dict[str, str]) -> Exported:
    sources, inputs, given = {}, {}, iter(names)
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        kind = spec.kind.name
        if kind == "USER_INPUT":
            sources[name] = inputs[name] = next(given)
        elif kind in ("PARAMETER", "BUFFER"):
            sources[name] = state_path(model, str(spec.target).removeprefix(f"{_MODEL}."))
        else:
            sources[name] = _constant(program, model, str(spec.target))
    _note_layers(program, model)
    writes, outputs = [], []
    for output in program.graph_signature.output_specs:
        kind = output.kind.name
        if kind == "USER_OUTPUT":
            outputs.append(nodes[output.arg.name])
        elif kind == "BUFFER_MUTATION":
            path = state_path(model, str(output.target).removeprefix(f"{_MODEL}."))
            writes.append((path, nodes[output.arg.name]))
        elif kind == "USER_INPUT_MUTATION":
            writes.append((inputs[str(output.target)], nodes[output.arg.name]))
        else:
            raise Unsupported(f"the exported program has an output of kind {kind}")
    return Exported(program.graph, sources, signature(model), fixed, _RETURNED[0], outputs, writes, inputs)


def _note_layers(program: torch.export.ExportedProgram, model: Any) -> None:
    """How `forward` reads the layer a convolution or a pooling is written as, where its settings are the layer's."""
    if not isinstance(model, nn.Module):
        return
    specs = program.graph_signature.input_specs
    targets = {spec.arg.name: str(spec.target).removeprefix(f"{_MODEL}.") for spec in specs}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target in pool.FAMILIES:
            _note_pool(node, model)
        if "conv" not in name_of(node):
            continue
        call = conv_call.parse(node)
        path, _, name = targets.get(call.weight.name, "").rpartition(".") if call is not None else ("", "", "")
        if call is None or not path or name != "weight":
            continue
        layer = model.get_submodule(path)
        if isinstance(layer, _ConvNd) and conv_call.is_of(call, layer):
            node.meta["layer"] = state_path(model, path)


def _note_pool(node: torch.fx.Node, model: nn.Module) -> None:
    """A pooling has no parameter to know its layer by: it is the innermost module that was being called."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = str(stack[-1][0]).removeprefix(_MODEL).removeprefix(".") if stack else ""
    call = pool_call.parse(node)
    if path and call is not None and pool_call.is_of(call, model.get_submodule(path)):
        node.meta["layer"] = state_path(model, path)


def _constant(program: torch.export.ExportedProgram, model: Any, target: str) -> str:
    """A tensor the program holds outside parameters and buffers: an attribute of the module, or written out."""
    name = target.removeprefix(f"{_MODEL}.")
    owner: Any = model
    for part in name.split("."):
        owner = getattr(owner, part, None)
    if isinstance(owner, Tensor):
        return state_path(model, name)
    value = program.constants[target]
    if not isinstance(value, Tensor) or value.numel() > _MAX_CONSTANT:
        raise Unsupported(f"forward makes a constant tensor of {value.numel()} elements; hold it as a buffer instead")
    return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}, device=device)"


def _names(bound: inspect.BoundArguments, live: bool) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """How `forward` reads each tensor among its arguments, the literals of the rest, and the types of live numbers."""
    names, fixed, numbers = [], {}, {}
    for expression, value in input_leaves(bound):
        if isinstance(value, Tensor):
            names.append(expression)
        elif live and is_number(value):
            names.append(expression)
            numbers[expression] = str(_number_type(value))
        else:
            fixed[expression] = repr(value)
    return names, fixed, numbers
