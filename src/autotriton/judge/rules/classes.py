"""Classes and statements: what may be subclassed, which special methods may be defined, what may not run later.

Covers metaclasses, tensor subclasses, dunder methods that intercept or outlive calls, async code, and text inside
decorators that Triton would read as the kernel (it re-reads source from the first line that starts with `def`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.attributes import is_dunder
from autotriton.judge.rules.source import Source, error, warning
from autotriton.judge.rules.tables import BUILTIN_BASES, METHOD_DUNDERS, NOT_SUBCLASSED
from autotriton.types import Finding

_LIBRARY_BASES = frozenset({"typing", "typing_extensions", "abc", "enum", "collections", "contextlib", "numbers"})
_FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})


def check(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            yield from _class(source, node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _decorators(node)
        if isinstance(node, ast.FunctionDef) and is_dunder(node.name) and node.name not in METHOD_DUNDERS:
            yield error("special-method", node, f"`{node.name}` intercepts or outlives calls; leave it out")
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            yield error("async", node, "asynchronous code runs outside the measured call; write a plain function")
        if isinstance(node, ast.comprehension) and node.is_async:
            yield error("async", node.target, "asynchronous code runs outside the measured call; write a plain loop")
        if isinstance(node, ast.Try):
            yield from _handlers(source, node)


def _class(source: Source, node: ast.ClassDef) -> Iterator[Finding]:
    for keyword in node.keywords:
        if keyword.arg not in {"frozen", "total"}:
            name = keyword.arg or "**"
            yield error(
                "class-keyword", node, f"class keyword `{name}` runs code while the class is made; leave it out"
            )
    for base in node.bases:
        if not _base_allowed(source, base):
            text = ast.unparse(base) if isinstance(base, ast.Name | ast.Attribute) else "this expression"
            yield error(
                "base-class",
                base,
                f"`{text}` may not be subclassed; use nn.Module, torch.autograd.Function or your own class",
            )


def _base_allowed(source: Source, base: ast.expr) -> bool:
    if isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Call):
        return bool(source.paths(base.func) & {"collections.namedtuple", "typing.NamedTuple"})
    if paths := source.paths(base):
        return all(_path_allowed(path) for path in paths)
    if not isinstance(base, ast.Name):
        return False
    bindings = source.lookup(base)
    if not bindings:
        return base.id in BUILTIN_BASES or base.id.endswith("Error")
    return all(isinstance(binding.node, ast.ClassDef) for binding in bindings)


def _path_allowed(path: str) -> bool:
    if path in NOT_SUBCLASSED:
        return False
    layer = path.startswith("torch.nn.") and path.rpartition(".")[2][:1].isupper()
    return layer or path in _FUNCTION or path.split(".")[0] in _LIBRARY_BASES


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> Iterator[Finding]:
    for decorator in node.decorator_list:
        for part in ast.walk(decorator):
            text = part.value if isinstance(part, ast.Constant) else None
            if isinstance(text, str) and "\n" in text and part.lineno != part.end_lineno:  # type: ignore[attr-defined]
                yield error(
                    "decorator-text", part, "text over several lines inside a decorator can be mistaken for the kernel"
                )


def _handlers(source: Source, node: ast.Try) -> Iterator[Finding]:
    if all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body):
        return
    for handler in node.handlers:
        broad = handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id.endswith("Exception"))
        if broad:
            yield warning(
                "broad-except", handler, "a broad `except` hides a failing kernel; catch the error you expect"
            )
