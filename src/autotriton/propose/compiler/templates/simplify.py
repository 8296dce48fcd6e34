"""Operators that need less than they say: reductions over one element, extremes whose place nobody asks for, copies."""

from __future__ import annotations

import torch
import torch.fx

from autotriton.propose.compiler.templates.cluster import is_reduction, reduced_dims
from autotriton.propose.compiler.templates.export import Exported
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.piece import node_at, shape_of

aten = torch.ops.aten
_SAME = frozenset(["sum", "mean", "amax", "amin", "prod"])


def simplify(exported: Exported) -> None:
    graph = exported.graph
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if node.op == "call_function" and name_of(node) in ("copy", "slice_scatter"):
            _all_of_it(node)
        if not is_reduction(node):
            continue
        dims, _ = reduced_dims(node)
        shape = shape_of(node_at(node.args[0]))
        if all(shape[d] == 1 for d in dims):
            _over_one_element(graph, node)
        elif name_of(node) in ("max", "min") and isinstance(node.meta["val"], tuple | list):
            _value_only(graph, node)
    graph.eliminate_dead_code()
    results: list[torch.fx.Node] = list(graph.output_node().args[0])  # type: ignore[arg-type]
    written = len(exported.writes)
    exported.writes = [(target, new) for (target, _), new in zip(exported.writes, results, strict=False)]
    exported.outputs = results[written:]


def _all_of_it(node: torch.fx.Node) -> None:
    """What is copied over a whole tensor is the tensor, unless it is returned and would then be the input itself."""
    new, value = node_at(node.args[1]), node.meta["val"]
    same = new.meta["val"].shape == value.shape and new.meta["val"].dtype == value.dtype
    if same and all(name_of(user) == "slice_scatter" for user in node.users):
        node.replace_all_uses_with(new)


def _over_one_element(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """The element itself, in the shape of the result."""
    if isinstance(node.meta["val"], torch.Tensor) and name_of(node) in _SAME:
        _replace_by_view(graph, node, node)
        return
    for part in list(node.users):
        which = part.args[1] if part.target is not None and len(part.args) > 1 else None
        kept = 1 if name_of(node) == "var_mean" else 0
        if which == kept and isinstance(node.meta["val"], tuple | list):
            _replace_by_view(graph, part, node)


def _replace_by_view(graph: torch.fx.Graph, result: torch.fx.Node, reduction: torch.fx.Node) -> None:
    source = reduction.args[0]
    assert isinstance(source, torch.fx.Node)
    value = result.meta["val"]
    if value.dtype != source.meta["val"].dtype:
        return
    with graph.inserting_before(result):
        view = graph.call_function(aten.view.default, (source, list(value.shape)))
    view.meta["val"] = value
    result.replace_all_uses_with(view)


def _value_only(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    parts = [part for part in node.users if part.users]
    if any(part.args[1] != 0 for part in parts):
        return
    target = aten.amax.default if name_of(node) == "max" else aten.amin.default
    dims, keep = reduced_dims(node)
    for part in parts:
        with graph.inserting_before(part):
            plain = graph.call_function(target, (node.args[0], list(dims), keep))
        plain.meta = dict(part.meta)
        part.replace_all_uses_with(plain)
