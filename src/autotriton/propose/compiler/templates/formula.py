"""What a kernel computes, as a reader would write it: for docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch.fx

from autotriton.propose.compiler.templates.cluster import fill_of, is_constant
from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.piece import node_at
from autotriton.propose.compiler.templates.views import base_of, expression, is_view

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"}
_INFIX |= {"ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "logical_and": "&", "logical_or": "|", "pow": "**"}
_SILENT = frozenset(["clone", "alias", "detach", "_to_copy", "lift_fresh_copy", "copy"])
_CHOICES = frozenset(["slice", "select", "split", "split_with_sizes", "chunk", "unbind", "narrow", "diagonal"])
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
    if (chosen := _chosen(node)) is not None:
        return expression(chosen, _bracketed(_text(chosen.args[0], inside, name, depth)), str)
    node = base_of(node)
    if is_constant(node):
        return str(fill_of(node))
    if str(node.target) == "<built-in function getitem>" and inside(node):
        parts = {"var_mean": ("var", "mean"), "max": ("max", "argmax"), "min": ("min", "argmin")}
        source, place = node_at(node.args[0]), node.args[1]
        which = parts.get(name_of(source), ("", ""))[1 if place == 1 else 0]
        return f"{which}({_text(source.args[0], inside, name, depth - 1)})"
    if not inside(node):
        return name(node)
    if depth == 0:
        return "..."
    operator = name_of(node)
    args = [_text(arg, inside, name, depth - 1) for arg in _readable(node.args)]
    if operator in _SILENT:
        return args[-1] if operator == "copy" else args[0]
    if operator in _INFIX and len(args) == 2:
        left, right = args if operator == "add" else map(_bracketed, args)
        return f"{left} {_INFIX[operator]} {right}"
    if operator in ("sum", "mean", "amax", "amin", "argmax", "argmin", "var_mean", "prod", "max", "min", "any", "all"):
        args = args[:1]
    return f"{operator}({', '.join(args)})"


def _bracketed(text: str) -> str:
    """In brackets where operators stand outside of all."""
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == " " and depth == 0:
            return f"({text})"
    return text


def _chosen(node: torch.fx.Node) -> torch.fx.Node | None:
    """The last view that leaves elements out: a reader has to know which. Others only change how they are counted."""
    while is_view(node):
        if str(node.target) == "<built-in function getitem>" or name_of(node) in _CHOICES:
            return node
        node = node_at(node.args[0])
    return None


def _readable(args: Iterable[Any]) -> Iterator[Any]:
    """Lists of tensors spelled out, lists of numbers left away."""
    for arg in args:
        if isinstance(arg, list | tuple):
            yield from (item for item in arg if isinstance(item, torch.fx.Node))
        else:
            yield arg
