"""Modules and sensitive classes stay where the scan can see them: under their own dotted names.

A module may be dotted into, aliased (`F = torch.nn.functional`), tested for None, or asked with getattr/hasattr; it is
never passed, stored, returned or matched. `torch.Tensor`, `nn.Module` and the like may be called, subclassed, used in
annotations and isinstance; `type(x)` may be compared, named or printed. Otherwise either could be patched out of sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.modules import words
from autotriton.judge.rules.source import Source, constant_getattr, error
from autotriton.judge.rules.tables import SENSITIVE_CLASSES
from autotriton.types import Finding

_PLAIN_TYPES = words("int float bool str bytes list tuple dict set frozenset complex")
_TELLS_TYPES = frozenset({"isinstance", "issubclass"})
_FLOWS_ON = ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.BinOp
_MAY_STAND_FOR = ast.Name | ast.Attribute | ast.Call | ast.Subscript | _FLOWS_ON
_PRINTS = frozenset({"str", "repr", "print"})


def check(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        if is_type_call(node):
            if not (_in_annotation(source, node) or _only_told(source, node) or _named(source, node)):
                yield error(
                    "type-as-value", node, "`type(x)` may be compared or printed, not used as a class; use isinstance"
                )
            continue
        if not isinstance(node, _MAY_STAND_FOR):
            continue
        paths = source.paths(node)
        if paths and source.is_module(node) and not _module_use_allowed(source, node):
            yield error(
                "module-as-value",
                node,
                f"the module `{min(paths)}` is used as a value; write `{min(paths)}.name` where needed",
            )
        elif paths & SENSITIVE_CLASSES and not _class_use_allowed(source, node):
            name = min(paths & SENSITIVE_CLASSES)
            yield error(
                "class-as-value", node, f"`{name}` is handed around as a value; use it in isinstance, calls and types"
            )


def is_type_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def _module_use_allowed(source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    if isinstance(parent, ast.Attribute) or _aliases(source, node, parent):
        return True
    if isinstance(parent, _FLOWS_ON) and source.paths(parent):
        return True  # the larger expression is checked itself
    if isinstance(parent, ast.Compare):
        return all(_is_none(x) for x in (parent.left, *parent.comparators) if x is not node)
    if isinstance(parent, ast.Call) and parent.args and parent.args[0] is node:
        asks = isinstance(parent.func, ast.Name) and parent.func.id == "hasattr"
        return asks or constant_getattr(parent) is not None
    return _is_test(parent, node)


def _aliases(source: Source, node: ast.expr, parent: ast.AST) -> bool:
    """`name = torch.nn.functional`, outside class bodies, where it would become an attribute."""
    if source.scopes[node].is_class:
        return False
    if isinstance(parent, ast.Assign):
        return all(isinstance(target, ast.Name) for target in parent.targets)
    return isinstance(parent, ast.AnnAssign) and isinstance(parent.target, ast.Name)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_test(parent: ast.AST, node: ast.expr) -> bool:
    tested = isinstance(parent, ast.If | ast.While | ast.Assert) and parent.test is node
    return tested or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))


def _class_use_allowed(source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    if (
        isinstance(parent, ast.Attribute)
        or (isinstance(parent, _FLOWS_ON) and source.paths(parent))
        or _aliases(source, node, parent)
    ):
        return True
    if isinstance(parent, ast.ClassDef):
        return node in parent.bases
    if isinstance(parent, ast.Call) and parent.func is node:
        return True
    return _in_annotation(source, node) or _only_told(source, node) or _cast(source, node)


def _cast(source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    first = isinstance(parent, ast.Call) and parent.args and parent.args[0] is node
    return bool(first and source.surely_imported(parent.func) and "typing.cast" in source.paths(parent.func))  # type: ignore[attr-defined]


def _in_annotation(source: Source, node: ast.AST) -> bool:
    """Inside a type: an annotation, or a subscript of a type such as `Optional[torch.Tensor]`."""
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, ast.Subscript) and child is parent.slice and _is_type(source, parent.value):
            return True
        if isinstance(parent, ast.arg | ast.AnnAssign):
            return parent.annotation is child
        if isinstance(parent, ast.FunctionDef):
            return parent.returns is child
        if not isinstance(parent, ast.Subscript | ast.Tuple | ast.List | ast.BinOp):
            return False
        child = parent
    return False


def _is_type(source: Source, node: ast.expr) -> bool:
    typed = any(path.split(".")[0] in {"typing", "typing_extensions", "collections"} for path in source.paths(node))
    return typed or (isinstance(node, ast.Name) and node.id in _PLAIN_TYPES and not source.lookup(node))


def _only_told(source: Source, node: ast.expr) -> bool:
    """Compared with other types, printed, or the second argument of isinstance."""
    child: ast.AST = node
    for parent in source.ancestors(node):
        if isinstance(parent, ast.FormattedValue):
            return True
        if isinstance(parent, ast.Compare):
            return all(_is_plainly_a_type(source, x) for x in (parent.left, *parent.comparators) if x is not child)
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and not source.lookup(parent.func):
            tells = parent.func.id in _TELLS_TYPES and child in parent.args[1:]
            return tells or parent.func.id in _PRINTS
        if not isinstance(parent, ast.Tuple | ast.BinOp):
            return False
        child = parent
    return False


def _is_plainly_a_type(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(_is_plainly_a_type(source, element) for element in node.elts)
    if isinstance(node, ast.Name) and node.id in _PLAIN_TYPES:
        return not source.lookup(node)
    return _is_none(node) or is_type_call(node) or (bool(source.paths(node)) and source.surely_imported(node))


def _named(source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    return isinstance(parent, ast.Attribute) and parent.attr in {"__name__", "__qualname__"}
