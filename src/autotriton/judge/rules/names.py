"""Names: builtins that run text or reach namespaces, dunder names, and the few builtins used only in fixed ways.

What must stay true: a denied builtin can be neither called, passed on nor rebound, and `getattr`, `setattr`, `type`,
`functools.wraps` and `dataclass` appear only where the scan can read what they do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotriton.judge.rules.attributes import is_dunder
from autotriton.judge.rules.source import Source, error
from autotriton.judge.rules.tables import DENIED_ATTRIBUTES, DENIED_BUILTINS, FIXED_BUILTINS, NAME_DUNDERS
from autotriton.types import Finding

_FIELD_REACHES_IN = re.compile(r"\{[^}]*[.\[]\s*['\"]?_")
_BY_NAME = frozenset({"getattr", "hasattr", "setattr"})
_WRAPS = frozenset({"functools.wraps"})
_DATACLASS = frozenset({"dataclasses.dataclass"})
_CLASS_DUNDERS = frozenset({"__slots__", "__constants__", "__doc__", "__version__"})
_LIBRARIES = frozenset({"torch", "triton"})


def check(source: Source) -> Iterator[Finding]:
    yield from _bindings(source)
    for node in source.nodes:
        if isinstance(node, ast.Name):
            yield from _name(source, node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            yield from _format(node.func)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _fixed_use(source, node)


_MODULE_DUNDERS = frozenset({"__all__", "__version__", "__author__"})


def _bindings(source: Source) -> Iterator[Finding]:
    for name, place, scope in source.bindings():
        if name in FIXED_BUILTINS and not scope.is_class:
            yield error("shadowed-name", place.node, f"`{name}` is given another meaning; choose another name")
        elif name in _LIBRARIES and name not in place.paths and not _is_none(place.value):
            yield error("shadowed-name", place.node, f"`{name}` no longer means the library; choose another name")
        elif not scope.is_class and name in _MODULE_DUNDERS:
            continue
        elif is_dunder(name) and not scope.is_class:
            yield error("reflection", place.node, f"`{name}` is the interpreter's own name; choose another")
        elif is_dunder(name) and not isinstance(place.node, ast.FunctionDef) and name not in _CLASS_DUNDERS:
            yield error("reflection", place.node, f"`{name}` changes how Python treats the class; leave it out")


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _name(source: Source, node: ast.Name) -> Iterator[Finding]:
    if node.id in DENIED_BUILTINS:
        yield error("dynamic-code", node, f"`{node.id}` is not available to candidates: it {DENIED_BUILTINS[node.id]}")
    elif is_dunder(node.id) and node.id not in NAME_DUNDERS:
        yield error("reflection", node, f"`{node.id}` is the interpreter's own; candidates may only read `__name__`")
    elif isinstance(node.ctx, ast.Load) and node.id in _BY_NAME:
        yield from _by_name(source, node)
    elif isinstance(node.ctx, ast.Load) and node.id == "type":
        yield from _type(source, node)


def _by_name(source: Source, node: ast.Name) -> Iterator[Finding]:
    call = source.parents[node]
    if not isinstance(call, ast.Call) or call.func is not node:
        yield error(
            "reflection", node, f"`{node.id}` is passed on as a value; call it directly, with the name in quotes"
        )
        return
    plain = len(call.args) >= 2 and not call.keywords and not any(isinstance(a, ast.Starred) for a in call.args)
    if not plain or not _readable(call.args[1], call.args[0]):
        yield error("reflection", node, f"`{node.id}` needs its attribute name in quotes, so that it can be read here")


def _readable(name: ast.expr, base: ast.expr) -> bool:
    """A constant; or, on self, an f-string that starts with a word no denied name starts with."""
    if isinstance(name, ast.Constant):
        return isinstance(name.value, str)
    if not (isinstance(name, ast.JoinedStr) and isinstance(base, ast.Name) and base.id == "self" and name.values):
        return False
    first = name.values[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return False
    prefix = first.value
    denied = any(word.startswith(prefix) for word in (*DENIED_ATTRIBUTES, "register_"))
    return prefix[:1].isalpha() and not denied


def _type(source: Source, node: ast.Name) -> Iterator[Finding]:
    parent = source.parents[node]
    if isinstance(parent, ast.Call) and parent.func is node:
        if len(parent.args) != 1 or parent.keywords or isinstance(parent.args[0], ast.Starred):
            yield error(
                "dynamic-class", node, "`type` with three arguments builds a class at run time; write a class statement"
            )
        return
    annotation = isinstance(parent, ast.arg | ast.AnnAssign | ast.Subscript)
    checked = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "isinstance"
    if not annotation and not checked:
        yield error("dynamic-class", node, "`type` is passed on as a value; call it as `type(x)`")


def _format(call: ast.Attribute) -> Iterator[Finding]:
    text = call.value
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        yield error(
            "reflection", call, "`.format` on text that is not written here can read attributes; use an f-string"
        )
    elif _FIELD_REACHES_IN.search(text.value):
        yield error("reflection", call, "a format field reads private attributes; use an f-string")


def _fixed_use(source: Source, node: ast.Name | ast.Attribute) -> Iterator[Finding]:
    parent = source.parents[node]
    paths = source.paths(node)
    if paths & _WRAPS and not _is_alias(parent) and not _innermost_decorator(source, node, called=True):
        yield error(
            "monkeypatch", node, "`functools.wraps(f)` copies attributes; use it only as the decorator next to `def`"
        )
    elif paths & _DATACLASS and not _is_alias(parent) and not _innermost_decorator(source, node, called=None):
        yield error("monkeypatch", node, "`dataclass` rewrites a class; use it only as the decorator next to `class`")
    elif "os.environ" in paths and not _reads_environment(parent, node):
        yield error(
            "environment", node, "the environment may only be read: `os.environ.get(name)` or `os.environ[name]`"
        )


def _is_alias(parent: ast.AST) -> bool:
    return isinstance(parent, ast.Assign) and all(isinstance(target, ast.Name) for target in parent.targets)


def _innermost_decorator(source: Source, node: ast.AST, called: bool | None) -> bool:
    """`@wraps(f)` or `@dataclass` / `@dataclass(frozen=True)`, last in the list: nothing else can slip in between."""
    expr, parent = node, source.parents[node]
    if isinstance(parent, ast.Call) and parent.func is node:
        simple = len(parent.args) == (1 if called else 0) and (not called or not parent.keywords)
        if not simple or any(isinstance(a, ast.Starred) for a in parent.args):
            return False
        expr, parent = parent, source.parents[parent]
    elif called:
        return False
    kind = ast.FunctionDef if called else ast.ClassDef
    return isinstance(parent, kind) and bool(parent.decorator_list) and parent.decorator_list[-1] is expr


def _reads_environment(parent: ast.AST, node: ast.AST) -> bool:
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "get"
    return isinstance(parent, ast.Compare) and all(isinstance(op, ast.In | ast.NotIn) for op in parent.ops)
