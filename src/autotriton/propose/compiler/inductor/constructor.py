"""The task's constructor without its computation, so that `ModelNew` holds the same parameters by the same names.

The task's text is sliced by name: `__init__`, the methods and definitions it reaches, and the imports those need.
Every `forward` is left out. The text is parsed, never run, and no torch is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.constructor_numpy import numpy_as_math
from autotriton.syntax import parse_source

_IMPORTABLE = {"torch", "math", "typing", "functools", "itertools", "collections", "copy", "dataclasses", "enum", "abc"}
_FORWARD = frozenset({"forward", "__call__"})


@dataclass
class Constructor:
    imports: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    """Classes, functions and constants the constructor uses."""
    base: str = "torch.nn.Module"
    members: list[str] = field(default_factory=list)
    """Class-level assignments and methods of the entry."""


def slice_constructor(source: str, entry: str, new_name: str) -> Constructor:
    top = _top_level(numpy_as_math(parse_source(source)))
    node = top.get(entry)
    if not isinstance(node, ast.ClassDef):
        return Constructor()
    needed: dict[str, ast.stmt] = {}
    stripped = _stripped(node)
    _collect(stripped, top, needed)
    imports = [_import(name, needed[name]) for name in needed if isinstance(needed[name], ast.Import | ast.ImportFrom)]
    kept = {id(n): n for n in needed.values() if not isinstance(n, ast.Import | ast.ImportFrom) and n is not node}
    order = sorted(kept.values(), key=lambda n: n.lineno)
    renamed = _Renamed(entry, new_name).visit(stripped)
    return Constructor(
        imports=sorted(set(imports)),
        definitions=[ast.unparse(_stripped(n) if isinstance(n, ast.ClassDef) else n) for n in order],
        base=", ".join(ast.unparse(base) for base in renamed.bases) or "object",
        members=[ast.unparse(member) for member in renamed.body if not isinstance(member, ast.Pass)],
    )


def _top_level(tree: ast.Module) -> dict[str, ast.stmt]:
    """Name -> the last statement that binds it at the top of the module."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        for name in _bound(node):
            found[name] = node
    return found


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def _collect(node: ast.AST, top: dict[str, ast.stmt], needed: dict[str, ast.stmt]) -> None:
    """Everything of the module that `node` refers to, and what that refers to."""
    for name in _free(node, frozenset()):
        if name in top and name not in needed:
            statement = top[name]
            needed[name] = statement
            _collect(_stripped(statement) if isinstance(statement, ast.ClassDef) else statement, top, needed)


def _free(node: ast.AST, own: frozenset[str]) -> Iterator[str]:
    """Names that are looked up outside `node`: a parameter hides the constant its value is taken from."""
    if isinstance(node, ast.Name):
        if node.id not in own:
            yield node.id
        return
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _free(child, own)
        return
    body = node.body if isinstance(node.body, list) else [node.body]
    inside = {id(statement) for statement in body}
    for child in ast.iter_child_nodes(node):
        yield from _free(child, own | _local(node, body) if id(child) in inside else own)


def _local(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Sequence[ast.AST]) -> frozenset[str]:
    """Parameters, and names the function binds itself."""
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    names = {argument.arg for argument in every}
    parts = [part for statement in body for part in ast.walk(statement)]
    names |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return frozenset(names - {name for part in parts if isinstance(part, ast.Global) for name in part.names})


def _stripped(node: ast.ClassDef) -> ast.ClassDef:
    """The class with what its constructor reaches, without docstring, annotations of return values and `forward`."""
    methods = {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}
    reached, todo = set[str](), ["__init__"]
    while todo:
        name = todo.pop()
        if name in methods and name not in reached and name not in _FORWARD:
            reached.add(name)
            todo += [part.attr for part in ast.walk(methods[name]) if isinstance(part, ast.Attribute)]
    body = [member for member in node.body if _is_kept(member, reached)]
    copy = ast.ClassDef(node.name, node.bases, node.keywords, body or [ast.Pass()], node.decorator_list)
    return ast.fix_missing_locations(ast.copy_location(copy, node))


def _is_kept(member: ast.stmt, reached: set[str]) -> bool:
    if isinstance(member, ast.FunctionDef):
        return member.name in reached
    return isinstance(member, ast.Assign | ast.AnnAssign)


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node


def _import(name: str, node: ast.stmt) -> str:
    """The one alias of an import statement that binds `name`."""
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        alias = next(alias for alias in node.names if (alias.asname or alias.name) == name)
        text = f"from {module} import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    else:
        assert isinstance(node, ast.Import)
        alias = next(a for a in node.names if (a.asname or a.name).partition(".")[0] == name)
        module = alias.name
        text = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    if module != "__future__" and module.partition(".")[0] not in _IMPORTABLE:
        raise ProposerError(
            f"the constructor needs `{text}`, which a standalone kernel file cannot import",
            hint="define what it uses in the task file itself",
        )
    return text
