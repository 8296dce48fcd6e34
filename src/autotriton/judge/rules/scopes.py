"""Scopes: which names a file binds where, and which of them stand for imports.

What must stay true: nothing Python could see is left out. Function scopes hide outer names as Python does; class bodies
and comprehensions do not, because there the outer name may still be seen before the inner one is bound.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from autotriton.judge.rules.modules import MODULE_FAMILIES, MODULES

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass
class Binding:
    """One place that gives a name its meaning."""

    node: ast.AST
    value: ast.expr | None = None
    """The right side, when a plain assignment binds it."""
    paths: frozenset[str] = frozenset()
    """What the name may stand for, when an import or an alias of one binds it."""


@dataclass
class Scope:
    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    """Declared `global` or `nonlocal`."""

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, FunctionNode)

    def bind(self, name: str, binding: Binding) -> None:
        scope: Scope | None = self
        if name in self.outer:
            scope = self.parent  # `nonlocal` may mean any outer scope, so every one of them gets the binding
            while scope is not None:
                scope.names.setdefault(name, []).append(binding)
                scope = scope.parent
            return
        self.names.setdefault(name, []).append(binding)


def visible(start: Scope, name: str) -> list[Binding]:
    found: list[Binding] = []
    scope: Scope | None = start
    in_function = False
    while scope is not None:
        if name in scope.names and name not in scope.outer and not (scope.is_class and in_function):
            found += scope.names[name]
            if scope.is_function:
                return found
        in_function |= scope.is_function
        scope = scope.parent
    return found


def known_module(path: str) -> bool:
    """Whether the path is a module a candidate may import."""
    head, _, last = path.rpartition(".")
    return path in MODULES or (head + "." in MODULE_FAMILIES and last.islower())


def shorten(path: str) -> str:
    """Keep the known modules at the front, one name below them, and `...` for whatever is read off that."""
    parts = path.split(".")
    length = 1
    while length < len(parts) and known_module(".".join(parts[: length + 1])):
        length += 1
    return ".".join(parts[: length + 1]) + ("...." if len(parts) > length + 1 else "")


def opened(node: ast.AST, scope: Scope) -> Scope:
    """The scope a node's children live in."""
    if not _opens_scope(node):
        return scope
    inner = Scope(node, scope, outer=_declared_outer(node))
    if isinstance(node, FunctionNode):
        args = node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        for arg in filter(None, every):
            inner.bind(arg.arg, Binding(arg))
    return inner


def _opens_scope(node: ast.AST) -> bool:
    return isinstance(node, FunctionNode | ast.ClassDef | Comprehension)


def _declared_outer(node: ast.AST) -> set[str]:
    declared: set[str] = set()
    stack = list(ast.iter_child_nodes(node))
    while stack:
        child = stack.pop()
        if isinstance(child, ast.Global | ast.Nonlocal):
            declared.update(child.names)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case) and not _opens_scope(child):
            stack += ast.iter_child_nodes(child)
    return declared


def evaluated_outside(node: ast.AST) -> set[ast.AST]:
    """Children of a scope-opening node that Python evaluates in the scope around it."""
    if isinstance(node, ast.ClassDef):
        return {*node.bases, *node.keywords, *node.decorator_list}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {*node.decorator_list, node.args, *([node.returns] if node.returns else [])}
    return {node.args} if isinstance(node, ast.Lambda) else set()


def bind(node: ast.AST, scope: Scope, parent: ast.AST | None) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            path = shorten(alias.name) if alias.asname else alias.name.partition(".")[0]
            scope.bind(alias.asname or path, Binding(node, paths=frozenset({path})))
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            scope.bind(
                alias.asname or alias.name, Binding(node, paths=frozenset({shorten(f"{node.module}.{alias.name}")}))
            )
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope.bind(node.name, Binding(node))
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        while isinstance(parent, ast.NamedExpr) and isinstance(scope.node, Comprehension) and scope.parent:
            scope = scope.parent
        scope.bind(node.id, Binding(node, value=_assigned(node, parent)))
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        scope.bind(node.name, Binding(node))
    elif isinstance(node, ast.MatchMapping) and node.rest:
        scope.bind(node.rest, Binding(node))


def _assigned(name: ast.Name, parent: ast.AST | None) -> ast.expr | None:
    """The expression a name is set to, when one plain assignment says so."""
    if isinstance(parent, ast.Assign) and name in parent.targets:
        return parent.value
    return parent.value if isinstance(parent, ast.AnnAssign | ast.NamedExpr) else None
