"""What a kernel computes, as a reader would write it: for docstrings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from autotriton.propose.compiler.templates.cluster import fill_of, is_constant
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.views import base_of

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"}
_INFIX |= {"ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "logical_and": "&", "logical_or": "|", "pow": "**"}
_SILENT = frozenset(["clone", "alias", "detach", "_to_copy", "lift_fresh_copy", "copy"])
_MAX_LENGTH = 90


def formula(node: torch.fx.Node, inside: Callable[[torch.fx.Node], bool], name: Callable[[torch.fx.Node], str]) -> str:
    """The value of `node` in terms of what its kernel reads; long ones are cut to their outermost operators."""
    for depth in (12, 6, 4, 3, 2, 1):
        text = _text(node, inside, name, depth)
        if len(text) <= _MAX_LENGTH:
            return text
    return text


def _text(node: Any, inside: Callable[[Any], bool], name: Callable[[Any], str], depth: int) -> str:
    if not isinstance(node, torch.fx.Node):
        return f"{node:g}" if isinstance(node, float) else str(node)
    node = base_of(node)
    if is_constant(node):
        return str(fill_of(node))
    if str(node.target) == "<built-in function getitem>" and inside(node):
        parts = {"var_mean": ("var", "mean"), "max": ("max", "argmax"), "min": ("min", "argmin")}
        which = parts.get(name_of(node.args[0]), ("", ""))[int(node.args[1]) % 2]  # type: ignore[arg-type]
        return f"{which}({_text(node.args[0].args[0], inside, name, depth - 1)})"  # type: ignore[union-attr]
    if not inside(node):
        return name(node)
    if depth == 0:
        return "..."
    operator = name_of(node)
    args = [_text(arg, inside, name, depth - 1) for arg in node.args if not isinstance(arg, list | tuple)]
    if operator in _SILENT:
        return args[-1] if operator == "copy" else args[0]
    if operator in _INFIX and len(args) == 2:
        left, right = (f"({a})" if " " in a and operator not in ("add",) else a for a in args)
        return f"{left} {_INFIX[operator]} {right}"
    if operator in ("sum", "mean", "amax", "amin", "argmax", "argmin", "var_mean", "prod", "max", "min", "any", "all"):
        args = args[:1]
    return f"{operator}({', '.join(args)})"
