"""Which results of a captured module have gradients: those that autograd would connect to an input or a parameter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

_CUT = ("aten::detach", "aten::detach_")
_SOURCES = (InputKind.PARAMETER, InputKind.USER_INPUT)


def differentiable(program: ExportedProgram) -> tuple[bool, ...]:
    """For each result whether it is connected, provided that what it depends on requires gradients."""
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    sources = [kinds[node.name] in _SOURCES and _is_floating(node.meta.get("val")) for node in nodes]
    return tuple(_follow(program.graph_module, sources))


def _follow(module: GraphModule, sources: list[bool]) -> list[bool]:
    connected: dict[Node, bool] = {}
    given = iter(sources)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            connected[node] = next(given)
        elif node.op == "output":
            results = [item for item in torch.utils._pytree.tree_leaves(node.args[0]) if isinstance(item, Node)]
            return [connected[result] for result in results]
        else:
            connected[node] = _passes_on(node) and any(connected[source] for source in node.all_input_nodes)
    return []


def _passes_on(node: Node) -> bool:
    if str(node.target) == "wrap_with_set_grad_enabled":
        return bool(node.args[0])
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in _CUT:
        return False
    return _is_floating(node.meta.get("val", True))


def _is_floating(value: Any) -> bool:
    """Integers and sizes have no gradients; of a tuple some items may."""
    if isinstance(value, Tensor):
        return value.dtype.is_floating_point or value.dtype.is_complex
    return not isinstance(value, torch.SymInt | int) or isinstance(value, bool)
