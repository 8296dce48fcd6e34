"""Attribute stores: a candidate sets attributes on its own objects only.

Assignment, augmented assignment, `del`, for- and with-targets and `setattr` are one thing here. Allowed: self/cls/ctx,
the file's own classes, functions and instances, layers held by self, `requires_grad` and `grad` of any tensor, and
`.data` of a parameter while the module is being initialised.

Not covered: in-place methods of library objects (`list.append`, `tensor.copy_`); inputs are hashed at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.facts import Facts
from autotriton.judge.rules.source import Source, constant_getattr, error
from autotriton.judge.rules.tables import RECEIVERS, TENSOR_FIELDS, TENSOR_METHODS
from autotriton.types import Finding

_INITIALISERS = frozenset({"__init__", "reset_parameters", "_init_weights", "init_weights", "_reset_parameters"})


def check(source: Source, facts: Facts) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield from _store(source, facts, node, node.value, node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr" and node.args:
            spelled = constant_getattr(node)
            yield from _store(source, facts, node, node.args[0], spelled[1] if spelled else "?")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in RECEIVERS:
            yield error("monkeypatch", node, f"`{node.id}` is rebound; use another name for another object")


def _store(source: Source, facts: Facts, node: ast.AST, base: ast.expr, attr: str) -> Iterator[Finding]:
    if paths := source.paths(base):
        yield error("monkeypatch", node, f"`{min(paths)}.{attr}` belongs to a library and may not be changed")
    elif attr in TENSOR_METHODS:
        yield error(
            "monkeypatch", node, f"`.{attr}` is a tensor's own method and may not be replaced; use another name"
        )
    elif attr == "data":
        if not (_root(base) in RECEIVERS and _initialising(source, node)):
            yield error(
                "monkeypatch", node, "`.data = ` swaps a tensor's memory; use `copy_` in `__init__`, or a new tensor"
            )
    elif not _owned(source, facts, base, attr):
        yield error("monkeypatch", node, f"`.{attr}` is set on an object the file did not make; keep state on `self`")


def _owned(source: Source, facts: Facts, base: ast.expr, attr: str) -> bool:
    if attr in TENSOR_FIELDS:
        return True
    if isinstance(base, ast.Name):
        if base.id in RECEIVERS:
            return all(isinstance(binding.node, ast.arg) for binding in source.lookup(base))
        return facts.is_own(base)
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.value.id in RECEIVERS:
        values = facts.fields.get(base.attr, [])
        return bool(values) and all(facts.made_here(value) for value in values)
    return False


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _initialising(source: Source, node: ast.AST) -> bool:
    function = source.enclosing_function(node)
    return isinstance(function, ast.FunctionDef) and function.name in _INITIALISERS
