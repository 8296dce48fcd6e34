"""Operators that need less than they say: reductions over one element, extremes whose place nobody asks for, copies."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.templates.cluster import is_reduction, reduced_dims
from autotriton.propose.compiler.templates.export import Exported
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.joins import narrow
from autotriton.propose.compiler.templates.piece import node_at, shape_of
from autotriton.propose.compiler.templates.reducers import correction_of
from autotriton.propose.compiler.templates.views import is_view

aten = torch.ops.aten
_FULL = aten.full_like.default
_PLACE = "place"


def simplify(exported: Exported) -> None:
    graph = exported.graph
    graph.eliminate_dead_code()
    narrow(graph)
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
    """The element itself, or what is known of it, in the shape of the result. Kernels count on more than one."""
    name = name_of(node)
    if isinstance(node.meta["val"], torch.Tensor):
        _replace_by_view(graph, node, node, _PLACE if name in ("argmax", "argmin") else name)
        return
    parts = ("var", "mean") if name == "var_mean" else (name, _PLACE)
    for part in list(node.users):
        if isinstance(part.args[1], int):
            _replace_by_view(graph, part, node, parts[part.args[1]])


def _replace_by_view(graph: torch.fx.Graph, result: torch.fx.Node, reduction: torch.fx.Node, what: str) -> None:
    value, source = result.meta["val"], node_at(reduction.args[0])
    with graph.inserting_before(result):
        if what == _PLACE:
            source = _inserted(graph, _FULL, source, 0, dtype=value.dtype)
        elif what in ("any", "all"):
            source = _inserted(graph, aten.ne.Scalar, source, 0)
        elif what == "var":  # of an infinite element, and of one less the correction, there is none
            one = correction_of(reduction) == 0
            source = _inserted(graph, *((aten.sub.Tensor, source, source) if one else (_FULL, source, math.nan)))
        elif value.dtype != source.meta["val"].dtype:
            source = _inserted(graph, aten._to_copy.default, source, dtype=value.dtype)
        elif _returned(result):  # a reduction's answer is never the input itself
            source = _inserted(graph, aten.clone.default, source)
        view = graph.call_function(aten.view.default, (source, list(value.shape)))
    view.meta["val"] = value
    result.replace_all_uses_with(view)


def _inserted(graph: torch.fx.Graph, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    made = graph.call_function(target, args, kwargs)
    values = [given.meta["val"] if isinstance(given, torch.fx.Node) else given for given in args]
    made.meta["val"] = target(*values, **kwargs)
    return made


def _returned(node: torch.fx.Node) -> bool:
    """The node, or a view of it, is among the results."""
    return any(user.op == "output" or (is_view(user) and _returned(user)) for user in node.users)


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
