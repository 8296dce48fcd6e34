"""The task's module as an aten graph: traced on fake CPU tensors, then retargeted to cuda.

Runs in the capturing child process only, and executes the task's own source. No memory for weights or inputs is ever
allocated. Parameters, buffers and tensors held as plain attributes are arguments of the graph, never constants in it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from autotriton.propose.compiler.inductor.attention import as_flex_attention
from autotriton.propose.compiler.inductor.decompositions import DECOMPOSITIONS
from autotriton.propose.compiler.inductor.program import (
    Unsupported,
    bind,
    build,
    call_arguments,
    input_leaves,
    is_number,
    refuse_random,
    returned,
    signature,
    state_path,
)
from autotriton.propose.compiler.inductor.record import Argument, Origin, Request
from autotriton.syntax import parse_literal

_MAX_CONSTANT = 64


@dataclass
class Traced:
    """A graph over fake cuda tensors and how `forward` supplies and receives them."""

    graph: torch.fx.GraphModule
    examples: list[Tensor]
    arguments: list[Argument]
    signature: str
    fixed: dict[str, str]
    output: str = ""
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict)
    kinds: list[tuple[torch.Size, torch.dtype]] = field(default_factory=list)
    """Shapes and types of the outputs."""
    flash_attention: bool = False
    """Whether attention was traced as the flash kernel's operator."""
    attention_note: str = ""
    """Why some attention was not."""


def trace(request: Request, module: Any, flash_attention: bool = False) -> Traced:
    """The graph with numbers among the inputs as arguments where that works, else fixed at their values."""
    fixed = _trace(request, module, live_numbers=False, flash_attention=flash_attention)
    if not any(is_number(parse_literal(text)) for text in fixed.fixed.values()):
        return fixed
    try:
        live = _trace(request, module, live_numbers=True, flash_attention=flash_attention)
    except Exception:  # noqa: BLE001 - a number that decides shapes or branches fails in as many ways as there are uses
        return fixed
    return live if live.kinds == fixed.kinds else fixed


def real_arguments(request: Request, module: Any, traced: Traced) -> list[Tensor]:
    """The graph's arguments with the task's own values on the GPU: its parameters, its inputs."""
    cuda = torch.device("cuda")
    with torch.no_grad(), cuda:
        model = build(request, module)
        args, kwargs = call_arguments(module.get_inputs(), pair=(tuple,))
        live = any(argument.origin is Origin.NUMBER for argument in traced.arguments)
        _, inputs, _ = _leaves(bind(model, args, kwargs), live)
        found = [*(tensor for _, tensor in _state(model)), *inputs]
        for argument in traced.arguments[len(found) :]:  # constants `forward` writes out
            found.append(eval(argument.expression, {"torch": torch, "device": cuda}))
        return [_laid_out(tensor, wanted) for tensor, wanted in zip(found, traced.examples, strict=True)]


def _laid_out(tensor: Tensor, wanted: Tensor) -> Tensor:
    """The tensor itself where it is as wanted: there may be no room for two of them."""
    if tensor.stride() == wanted.stride() and tensor.device.type == "cuda":
        return tensor
    return torch.empty_strided(wanted.shape, wanted.stride(), dtype=wanted.dtype, device="cuda").copy_(tensor)


def _trace(request: Request, module: Any, live_numbers: bool, flash_attention: bool) -> Traced:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        model = build(request, module)
        args, kwargs = call_arguments(module.get_inputs(), pair=(tuple,))
        bound = bind(model, args, kwargs)
        arguments, tensors, fixed = _leaves(bound, live_numbers)
    state = _state(model)
    arguments = [argument for argument, _ in state] + arguments
    tensors = [tensor for _, tensor in state] + tensors
    traced = Traced(_EMPTY, tensors, arguments, signature(model), fixed)
    attention = as_flex_attention(flash_attention)
    with torch.no_grad(), mode, sdpa_kernel(SDPBackend.MATH), _scalars_as_full(), _no_mkldnn(), attention as seen:
        function = _flat(model, bound, traced)
        traced.graph = make_fx(
            function, decomposition_table=DECOMPOSITIONS, tracing_mode="real", _allow_non_fake_inputs=True
        )(*tensors)
    traced.flash_attention = seen.rewritten > 0
    traced.attention_note = seen.refused
    refuse_random(traced.graph)
    _lift_constants(traced)
    _retarget(traced.graph)
    with mode:
        traced.examples = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda") for t in traced.examples
        ]
    return traced


def _as_tensor(value: float) -> Tensor:
    """A number as a tensor without dimensions, which takes part in type promotion as the number does."""
    return torch.full((), value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


def _leaves(bound: inspect.BoundArguments, live_numbers: bool) -> tuple[list[Argument], list[Tensor], dict[str, str]]:
    """Tensors, and numbers where they are live, become arguments of the graph; the rest is fixed at its value."""
    arguments, tensors, fixed = [], [], {}
    for expression, value in input_leaves(bound):
        if isinstance(value, Tensor):
            arguments.append(_argument(Origin.INPUT, expression, expression, value))
            tensors.append(value)
        elif live_numbers and is_number(value):
            tensors.append(_as_tensor(value))
            arguments.append(_argument(Origin.NUMBER, expression, expression, tensors[-1]))
        else:
            fixed[expression] = repr(value)
    return arguments, tensors, fixed


def _argument(origin: Origin, name: str, expression: str, tensor: Tensor) -> Argument:
    if tensor.layout is not torch.strided or tensor.dtype.is_complex:
        raise Unsupported(f"{name} is {tensor.dtype} in layout {tensor.layout}; only dense real tensors are supported")
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    return Argument(
        origin=origin, name=name, expression=expression, shape=shape, stride=stride, dtype=str(tensor.dtype)
    )


def _state(model: Callable[..., Any]) -> list[tuple[Argument, Tensor]]:
    if not isinstance(model, nn.Module):
        return []
    found: list[tuple[Origin, str, Tensor]] = [
        *((Origin.PARAMETER, name, p.detach()) for name, p in model.named_parameters()),
        *((Origin.BUFFER, name, b) for name, b in model.named_buffers()),
        *((Origin.BUFFER, name, value) for name, _, value in _plain_tensors(model)),
    ]
    return [(_argument(origin, name, state_path(model, name), tensor), tensor) for origin, name, tensor in found]


def _plain_tensors(model: nn.Module) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Tensors a module holds as plain attributes: `self.mask = torch.ones(...)`."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{prefix}.{name}" if prefix else name, module, value


def _flat(model: Callable[..., Any], bound: inspect.BoundArguments, traced: Traced) -> Callable[..., list[Tensor]]:
    """The model over a flat list of tensors; records what it returns in `traced`."""
    count = sum(argument.origin in (Origin.PARAMETER, Origin.BUFFER) for argument in traced.arguments)
    live = any(argument.origin is Origin.NUMBER for argument in traced.arguments)
    plain = list(_plain_tensors(model)) if isinstance(model, nn.Module) else []
    leaves, spec = pytree.tree_flatten((bound.args, bound.kwargs))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor) or (live and is_number(leaf))]

    def function(*flat: Tensor) -> list[Tensor]:
        given = list(leaves)
        for index, tensor in zip(places, flat[count:], strict=True):
            given[index] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        if not isinstance(model, nn.Module):
            return _returned(model(*args, **kwargs), flat, traced)
        state = dict(zip((a.name for a in traced.arguments), flat[:count], strict=False))
        for name, module, _ in plain:
            setattr(module, name.rpartition(".")[2], state.pop(name))
        return _returned(torch.func.functional_call(model, state, args, kwargs), flat, traced)

    return function


def _returned(value: Any, flat: tuple[Tensor, ...], traced: Traced) -> list[Tensor]:
    tensors: list[Tensor] = []
    traced.output = returned(value, tensors)
    if not tensors:
        raise Unsupported("forward returns no tensor")
    traced.kinds = [(tensor.shape, tensor.dtype) for tensor in tensors]
    owners = list(zip(flat, traced.arguments, strict=True))
    storages = {owner.untyped_storage()._cdata: (owner, argument) for owner, argument in owners}
    for index, tensor in enumerate(tensors):
        if (found := storages.get(tensor.untyped_storage()._cdata)) is not None:
            owner, argument = found
            shape, stride = tuple(tensor.shape), tuple(tensor.stride())
            same = (shape, stride) == (argument.shape, argument.stride)
            offset = tensor.storage_offset() - owner.storage_offset()
            start = f", {{0}}.storage_offset() + {offset}" if offset else ""
            view = "{0}" if same and not offset else f"torch.as_strided({{0}}, {shape}, {stride}{start})"
            traced.aliases[f"_out{index}"] = (argument.name, view)
    return tensors


@contextmanager
def _scalars_as_full() -> Iterator[None]:
    """`torch.tensor(2.0)` in forward becomes an op of the graph instead of a constant outside it."""
    real = torch.tensor

    def tensor(data: Any, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        if isinstance(data, int | float | bool):
            dtype = dtype or (torch.get_default_dtype() if isinstance(data, float) else None)
            return torch.full((), data, dtype=dtype, device=device)
        return real(data, *args, **{**kwargs, "dtype": dtype, "device": device})

    with mock.patch.object(torch, "tensor", tensor):
        yield


def _no_mkldnn() -> Any:
    return torch.backends.mkldnn.flags(enabled=False)


def _lift_constants(traced: Traced) -> None:
    """Tensors written out in `forward`, `torch.tensor([1.0, 2.0])`, become arguments that are written out again."""
    graph = traced.graph.graph
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = getattr(traced.graph, str(node.target))
        if isinstance(value, torch.fx.GraphModule):  # what attention does to its scores
            continue
        if type(value) is not Tensor or value.numel() > _MAX_CONSTANT:
            raise Unsupported(
                f"forward makes a constant tensor of {value.numel()} elements; hold it as a buffer instead"
            )
        name = str(node.target).strip("_")
        text = f"torch.tensor({value.tolist()!r}, dtype={value.dtype}, device=device)"
        traced.arguments.append(_argument(Origin.CONSTANT, name, text, value))
        traced.examples.append(value)
        with graph.inserting_after(last):
            last = graph.placeholder(name)
        node.replace_all_uses_with(last)
        graph.erase_node(node)
        delattr(traced.graph, str(node.target))  # what the module holds, Inductor would take as further arguments


def _retarget(graph: torch.fx.GraphModule) -> None:
    cuda = torch.device("cuda", 0)
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            _retarget(getattr(graph, str(node.target)))
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": cuda}
        node.args = torch.fx.node.map_aggregate(node.args, lambda v: cuda if isinstance(v, torch.device) else v)
        node.meta = {}
    graph.recompile()


_EMPTY = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
