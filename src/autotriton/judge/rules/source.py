"""The parsed candidate: its tree, who contains whom, and which names stand for which imported things.

What must stay true: `paths` over-approximates. A name that may stand for an imported module in its scope is reported as
one. Function scopes hide outer names as Python does; class bodies and comprehensions do not (there the outer name may
still be seen before the inner one is bound).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.scopes import (
    Binding,
    Scope,
    bind,
    evaluated_outside,
    known_module,
    opened,
    shorten,
    visible,
)
from autotriton.types import Finding, Policy, Severity

_MAX_SURE_DEPTH = 8
MAX_NODES = 200_000
MAX_STEPS = 300_000


class TooComplex(Exception):
    """The file is larger or more entangled than the scan is willing to follow."""


class Source:
    """What every rule gets."""

    def __init__(self, tree: ast.Module, policy: Policy, entries: tuple[str, ...]) -> None:
        self.tree = tree
        self.policy = policy
        self.entries = entries
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        """The scope each node is evaluated in."""
        self._seen: dict[tuple[int, str], list[Binding]] = {}
        self._named_paths: dict[tuple[int, str], frozenset[str]] = {}
        self._sure: dict[tuple[int, str], bool] = {}
        self._resolved = False
        self._steps = 0
        self._walk()
        self._resolve_aliases()
        self._resolved = True

    def lookup(self, name: ast.Name) -> list[Binding]:
        """Every binding the name may have where it stands; empty for builtins and unknown names."""
        key = (id(self.scopes[name]), name.id)
        if key not in self._seen:
            self._seen[key] = visible(self.scopes[name], name.id)
        return self._seen[key]

    def paths(self, node: ast.AST | None) -> frozenset[str]:
        """The imported things an expression may stand for, as dotted paths, shortened by `shorten`."""
        if isinstance(node, ast.Attribute):
            return self._below(node)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.IfExp):
            return self.paths(node.body) | self.paths(node.orelse)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.paths(value) for value in node.values))
        if isinstance(node, ast.NamedExpr):
            return self.paths(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.paths(node.left) | self.paths(node.right)  # `T | T` is T
        if isinstance(node, ast.Subscript):
            return self._union(node)
        if node is not None and (spelled := constant_getattr(node)) is not None:
            return frozenset(shorten(f"{path}.{spelled[1]}") for path in self.paths(spelled[0]))
        return frozenset()

    def _named(self, node: ast.Name) -> frozenset[str]:
        key = (id(self.scopes[node]), node.id)
        if key in self._named_paths:
            return self._named_paths[key]
        places = self.lookup(node)
        self._steps += len(places)
        found = frozenset[str]().union(*(place.paths for place in places))
        self._steps += len(found)
        if self._resolved:
            self._named_paths[key] = found
        return found

    def surely_imported(self, node: ast.AST | None, depth: int = 0) -> bool:
        """The expression stands for an imported thing (or None) and for nothing else; `paths` only says it may."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.IfExp):
            return self.surely_imported(node.body, depth + 1) and self.surely_imported(node.orelse, depth + 1)
        if isinstance(node, ast.Constant):
            return node.value is None and depth > 0
        if not isinstance(node, ast.Name) or depth > _MAX_SURE_DEPTH:
            return False
        key = (id(self.scopes[node]), node.id)
        if key not in self._sure:
            self._sure[key] = False  # while it is being found out: an alias of itself is not sure
            self._sure[key] = self._surely_bound(self.lookup(node), depth)
        return self._sure[key]

    def _surely_bound(self, places: list[Binding], depth: int) -> bool:
        imports = (isinstance(place.node, ast.Import | ast.ImportFrom) for place in places)
        sure = (i or self.surely_imported(p.value, depth + 1) for i, p in zip(imports, places, strict=True))
        return bool(places) and all(sure)

    def _union(self, node: ast.Subscript) -> frozenset[str]:
        """`Union[T]` is T itself."""
        if not self.paths(node.value) & {"typing.Union", "typing_extensions.Union"}:
            return frozenset()
        members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return frozenset().union(*(self.paths(member) for member in members))

    def _below(self, node: ast.Attribute) -> frozenset[str]:
        attrs: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            attrs.append(base.attr)
            base = base.value
        found = self.paths(base)
        return frozenset(shorten(".".join((path, *reversed(attrs)))) for path in found) if found else found

    def _walk(self) -> None:
        """Visit every node once, without recursion: deep nesting must not crash the scan."""
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, Scope(self.tree, None))]
        while stack:
            node, scope = stack.pop()
            self.nodes.append(node)
            self.scopes[node] = scope
            bind(node, scope, self.parents.get(node))
            inner = opened(node, scope)
            outside = evaluated_outside(node)
            children = list(ast.iter_child_nodes(node))
            self.parents.update(dict.fromkeys(children, node))
            stack += [(child, scope if child in outside else inner) for child in reversed(children)]
            if len(self.nodes) > MAX_NODES:
                raise TooComplex

    def _resolve_aliases(self) -> None:
        """Follow `a = torch; b = a.nn` to the end, whatever the order and length of the chain."""
        waiting: dict[str, list[Binding]] = {}
        todo = [place for _, place, _ in self.bindings() if not isinstance(place.value, ast.Constant | None)]
        for place in todo:
            for part in _flowing(place.value):
                waiting.setdefault(part, []).append(place)
        names = {id(place): name for name, place, _ in self.bindings()}
        while todo:
            place = todo.pop()
            self._steps += 1
            if (found := self.paths(place.value)) - place.paths:
                place.paths |= found
                todo += waiting.get(names[id(place)], ())
            if self._steps > MAX_STEPS:
                raise TooComplex

    def bindings(self) -> Iterator[tuple[str, Binding, Scope]]:
        """Every name the file gives a meaning to, once per place."""
        seen: set[int] = set()
        for scope in {id(scope): scope for scope in self.scopes.values()}.values():
            for name, places in scope.names.items():
                for place in places:
                    if id(place) not in seen:
                        seen.add(id(place))
                        yield name, place, scope

    def is_module(self, node: ast.AST) -> bool:
        return any(known_module(path) for path in self.paths(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def enclosing_function(self, node: ast.AST) -> ast.AST | None:
        return next((a for a in self.ancestors(node) if isinstance(a, ast.FunctionDef | ast.AsyncFunctionDef)), None)


def _flowing(value: ast.expr | None) -> set[str]:
    """Names an alias may depend on."""
    return {part.id for part in ast.walk(value) if isinstance(part, ast.Name)} if value is not None else set()


def constant_getattr(node: ast.AST) -> tuple[ast.expr, str] | None:
    """(x, "name") for `getattr(x, "name", ...)` and `setattr(x, "name", ...)`; hasattr only answers yes or no."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr"}
    if not called or not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    name = node.args[1]
    return (node.args[0], name.value) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def error(rule: str, node: ast.AST, message: str) -> Finding:
    return Finding(rule=rule, severity=Severity.ERROR, message=message, line=getattr(node, "lineno", None))


def warning(rule: str, node: ast.AST, message: str) -> Finding:
    return Finding(rule=rule, severity=Severity.WARNING, message=message, line=getattr(node, "lineno", None))
