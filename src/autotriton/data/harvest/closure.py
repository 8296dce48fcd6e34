"""Everything one class or function needs, gathered from its package into one self-contained text.

Definitions are followed by name through the package's own imports; only torch and a few standard modules stay imports.
Decorators nobody needs to compute (registries, documentation, scripting) are dropped. Must stay true: the text is the
package's own, never rewritten beyond decorators and annotations.
"""

from __future__ import annotations

import ast
import builtins
import functools
import pickle
from dataclasses import dataclass, field
from functools import cached_property

from autotriton.data.harvest.packages import Package, SourceFile
from autotriton.syntax import parse_source

ALLOWED = frozenset(
    (
        "torch",
        "math",
        "typing",
        "functools",
        "itertools",
        "collections",
        "dataclasses",
        "enum",
        "abc",
        "operator",
        "copy",
        "numbers",
        "warnings",
        "types",
        "typing_extensions",
        "contextlib",
        "inspect",
        "string",
        "re",
        "logging",
    )
)
_FORBIDDEN_TORCH = (
    "torch.distributed",
    "torch.utils.checkpoint",
    "torch.hub",
    "torch.utils.cpp_extension",
    "torch.multiprocessing",
    "torch.onnx",
)
_KEPT_DECORATORS = frozenset(
    (
        "staticmethod",
        "classmethod",
        "property",
        "dataclass",
        "abstractmethod",
        "lru_cache",
        "cached_property",
        "setter",
        "cache",
        "contextmanager",
        "wraps",
    )
)
_MOST_DEFINITIONS, _MOST_LINES, _DEEPEST = 24, 420, 8
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__class__"}


class NotClosed(Exception):
    """Something it needs is not in the package or not allowed; the message names it."""


Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Place:
    """A definition in a file, or an import that stays one."""

    file: SourceFile
    node: Definition | None
    imported: str = ""
    """The import statement, where it is one of the allowed modules."""


@dataclass
class Index:
    """Names bound at the top of one file."""

    file: SourceFile
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None, int]] = field(default_factory=dict)
    """Name -> (module, name in it or None, level)."""
    stars: list[tuple[str, int]] = field(default_factory=list)
    """`from module import *`."""

    @staticmethod
    def of(file: SourceFile) -> Index:
        index = Index(file)
        for node in _top(file.tree.body):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                index.definitions[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        index.definitions[target.id] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                index.definitions[node.target.id] = node
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    index.imports[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0],
                        None,
                        0,
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        index.stars.append((node.module or "", node.level))
                    else:
                        index.imports[alias.asname or alias.name] = (node.module or "", alias.name, node.level)
        return index


def _top(body: list[ast.stmt]) -> list[ast.stmt]:
    """Top-level statements, those in `try` and `if` included.

    Where `try` imports what will not be there, its handler speaks, and the names it would have bound are None.
    """
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Try):
            missing = [name for item in node.body for name in _foreign(item)]
            if missing and node.handlers:
                found += [parse_source(f"{name} = None").body[0] for name in missing]
                found += _top(node.handlers[0].body)
            else:
                found += _top(node.body)
        elif isinstance(node, ast.If):
            found += _top(node.body) + _top(node.orelse)
        else:
            found.append(node)
    return found


def _foreign(node: ast.stmt) -> list[str]:
    """Names an import of a module that is neither ours nor allowed would bind."""
    if isinstance(node, ast.Import):
        return [
            alias.asname or alias.name.partition(".")[0]
            for alias in node.names
            if alias.name.partition(".")[0] not in ALLOWED
        ]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").partition(".")[0] not in ALLOWED:
        return [alias.asname or alias.name for alias in node.names]
    return []


class Library:
    """One package's definitions, indexed when first asked for."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._indices: dict[str, Index] = {}

    def index(self, module: str) -> Index | None:
        if module not in self._indices:
            file = self.package.files.get(module)
            if file is None:
                return None
            self._indices[module] = Index.of(file)
        return self._indices[module]

    def definitions(self, file: SourceFile) -> dict[str, Definition]:
        index = self.index(file.module)
        return dict(index.definitions) if index is not None else {}

    def find(self, file: SourceFile, name: str, depth: int = 0) -> Place:
        """Where a name used in a file comes from."""
        index = self.index(file.module)
        assert index is not None
        if name in index.definitions:
            return Place(file, index.definitions[name])
        if depth > _DEEPEST:
            raise NotClosed(f"`{name}` is imported in a circle")
        if name not in index.imports:
            return self._through_stars(index, name, depth)
        module, inner, level = index.imports[name]
        if level == 0 and module.partition(".")[0] in ALLOWED:
            return Place(file, None, _import(module, inner, name))
        target = self._absolute(file, module, level)
        if target is None or inner is None:
            raise NotClosed(f"it imports `{module or inner}`")
        other = self.index(target)
        if other is None or (
            f"{target}.{inner}" in self.package.files and inner not in {**other.definitions, **other.imports}
        ):
            raise NotClosed(f"it imports `{target}.{inner}`")
        return self.find(other.file, inner, depth + 1)

    def _through_stars(self, index: Index, name: str, depth: int) -> Place:
        for module, level in index.stars:
            target = self._absolute(index.file, module, level)
            other = self.index(target) if target is not None else None
            if other is not None and (name in other.definitions or name in other.imports or other.stars):
                return self.find(other.file, name, depth + 1)
        raise NotClosed(f"`{name}` is bound nowhere")

    def _absolute(self, file: SourceFile, module: str, level: int) -> str | None:
        if level == 0:
            return module if module.partition(".")[0] == self.package.name else None
        parts = file.module.split(".")
        parts = parts if file.is_package else parts[:-1]
        parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
        return ".".join([*parts, *([module] if module else [])])


def _import(module: str, inner: str | None, name: str) -> str:
    full = f"{module}.{inner}" if inner else module
    if any(full.startswith(word) for word in _FORBIDDEN_TORCH) or (
        module == "torch" and inner in ("distributed", "compile")
    ):
        raise NotClosed(f"it imports `{full}`")
    if inner is None:
        return f"import {module}" + (f" as {name}" if name != module else "")
    return f"from {module} import {inner}" + (f" as {name}" if name != inner else "")


@dataclass(frozen=True)
class Closed:
    """A self-contained text."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(self.imports) + "\n\n\n" + "\n\n\n".join(self.definitions)


def close(library: Library, file: SourceFile, name: str) -> Closed:
    """The closure of one definition, or NotClosed."""
    order: list[tuple[str, str, Definition]] = []
    done: set[tuple[str, str]] = set()
    imports: dict[str, None] = {"import torch": None}
    _visit(library, file, name, order, done, imports)
    names = [bound for _, bound, _ in order]
    if len(set(names)) < len(names):
        raise NotClosed("two files define the same name")
    texts = tuple(_text(node) for _, _, node in order)
    if sum(text.count("\n") + 1 for text in texts) > _MOST_LINES:
        raise NotClosed("its closure is too long")
    return Closed(tuple(sorted(imports)), texts)


@functools.lru_cache(maxsize=4096)
def _text(node: Definition) -> str:
    return ast.unparse(_trimmed(node))


def _visit(
    library: Library,
    file: SourceFile,
    name: str,
    order: list[tuple[str, str, Definition]],
    done: set[tuple[str, str]],
    imports: dict[str, None],
) -> None:
    if name == "logger":
        imports["import logging"] = None
        node = parse_source("logger = logging.getLogger(__name__)").body[0]
        assert isinstance(node, ast.Assign)
        if ("", name) not in done:
            done.add(("", name))
            order.append(("", name, node))
        return
    place = library.find(file, name)
    if place.node is None:
        imports[place.imported] = None
        return
    bound = place.node.name if isinstance(place.node, ast.ClassDef | ast.FunctionDef) else name
    key = (place.file.module, bound)
    if key in done:
        return
    if bound != name:
        raise NotClosed(f"`{bound}` is renamed to `{name}`")
    done.add(key)
    if len(done) > _MOST_DEFINITIONS:
        raise NotClosed("its closure has too many parts")
    for free in free_names(place.node):
        if free != bound:
            _visit(library, place.file, free, order, done, imports)
    order.append((*key, place.node))


@functools.lru_cache(maxsize=4096)
def free_names(node: Definition) -> tuple[str, ...]:
    """Names a definition uses that it does not bind itself, annotations and dropped decorators aside, in order."""
    trimmed = _trimmed(node)
    bound: set[str] = set()
    used: dict[str, None] = {}
    for inner in ast.walk(trimmed):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            used[inner.id] = None
        elif isinstance(inner, ast.Name):
            bound.add(inner.id)
        elif isinstance(inner, ast.arg):
            bound.add(inner.arg)
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and inner is not trimmed:
            bound |= {inner.name} if inner.name else set()
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            for alias in inner.names:
                bound.add(alias.asname or alias.name.partition(".")[0])
    if isinstance(trimmed, ast.Assign | ast.AnnAssign):
        bound = set()
    return tuple(name for name in used if name not in bound and name not in _BUILTINS)


class _Trim(ast.NodeTransformer):
    """Drops annotations (they need names nobody computes with), decorators and docstrings."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self._common(node)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._common(node)
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _common(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        node.decorator_list = [item for item in node.decorator_list if _name(item) in _KEPT_DECORATORS]
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]


@functools.lru_cache(maxsize=4096)
def _trimmed(node: Definition) -> Definition:
    dataclass_like = isinstance(node, ast.ClassDef) and any(_name(item) == "dataclass" for item in node.decorator_list)
    if dataclass_like:
        raise NotClosed("it needs a dataclass")
    # A round trip through pickle copies a syntax tree five times as fast as `copy.deepcopy`.
    trimmed: Definition = _Trim().visit(pickle.loads(pickle.dumps(node)))
    return trimmed


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
