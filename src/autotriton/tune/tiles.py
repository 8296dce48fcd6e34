"""The `TILES` literal of a candidate's file: reading it, writing other values into it, and what is left without it.

Pure text and syntax trees; the file is never run. Everything outside the literal, and its own comments apart from the
one this module writes, stays byte for byte as it was.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotriton.errors import UsageError
from autotriton.syntax import parse_literal, parse_source

Value = int | str | bool
Setting = dict[str, Value]
Settings = dict[str, Setting]

NAME = "TILES"
_MARK = "# measured on "
_WIDTH = 120


def read(code: str) -> Settings:
    """The settings a file carries."""
    literal = _parse(code).value
    try:
        value = parse_literal(literal)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _unusable("is not a literal", literal) from None
    if not isinstance(value, dict) or not all(_is_entry(name, entry) for name, entry in value.items()):
        raise _unusable("must map names to {name: int, str or bool}", literal)
    return value


def rewrite(code: str, settings: Mapping[str, Setting], note: str = "") -> str:
    """The file with these settings; entries not named keep theirs. `note` says where they were measured."""
    old = read(code)
    unknown = sorted(set(settings) - set(old))
    if unknown:
        raise UsageError(f"{NAME} has no entry {unknown[0]!r}", hint=f"it has: {', '.join(old) or 'none'}")
    return _replaced(code, _literal({**old, **{name: dict(setting) for name, setting in settings.items()}}), note)


def skeleton(code: str) -> str:
    """The file without its settings: equal for two files that differ in nothing else."""
    return _replaced(code, "...", "")


def sources(code: str, name: str) -> str:
    """The wrapper `name` and all module-level code it reaches, without `TILES`, comments and formatting."""
    bindings = _bindings(_tree(code))
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in reached or current not in bindings or current == NAME:
            continue
        reached.add(current)
        for node in bindings[current]:
            waiting += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    nodes = {id(node): node for found in reached for node in bindings[found]}
    return "\n".join(ast.unparse(node) for node in sorted(nodes.values(), key=lambda node: node.lineno))


@dataclass(frozen=True)
class _Assignment:
    """Where the literal stands: lines counted from one, columns in bytes, as `ast` does."""

    target: str
    value: ast.expr
    first: int
    last: int
    end: int


def _parse(code: str) -> _Assignment:
    found = [one for statement in _tree(code).body if (one := _assignment(statement)) is not None]
    if len(found) != 1:
        problem = f"assigns {NAME} {len(found)} times" if found else f"has no {NAME}"
        raise UsageError(f"the candidate's file {problem}", hint=f"it needs one `{NAME} = {{...}}` at module level")
    return found[0]


def _assignment(node: ast.stmt) -> _Assignment | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    if not (isinstance(target, ast.Name) and target.id == NAME):
        return None
    value = node.value
    assert value is not None
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    annotation = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    return _Assignment(f"{NAME}{annotation}", value, node.lineno, node.end_lineno, node.end_col_offset)


def _tree(code: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_source(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"the candidate's file cannot be parsed: {error}") from None


def _bindings(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Every statement that binds a name at the top of the file."""
    found: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _bound(node):
            found.setdefault(name, []).append(node)
    return found


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    else:
        stored = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store))
        yield from (inner.id for inner in stored)


def _replaced(code: str, literal: str, note: str) -> str:
    place = _parse(code)
    lines = code.splitlines(keepends=True)
    rest = lines[place.last - 1].encode()[place.end :].decode()
    above = lines[: place.first - 1]
    if above and above[-1].startswith(_MARK):
        above.pop()
    comment = f"{_MARK}{note}\n" if note else ""
    return "".join([*above, comment, f"{place.target} = {literal}{rest}", *lines[place.last :]])


def _literal(settings: Settings) -> str:
    """One entry per line; an entry too long for a line has one value per line."""
    lines = ["{"]
    for name, setting in settings.items():
        values = [f"{json.dumps(key, ensure_ascii=False)}: {_value(value)}" for key, value in setting.items()]
        start = f"    {json.dumps(name, ensure_ascii=False)}: {{"
        line = f"{start}{', '.join(values)}}},"
        lines += [line] if len(line) <= _WIDTH else [start, *(f"        {value}," for value in values), "    },"]
    return "\n".join([*lines, "}"])


def _value(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _is_entry(name: object, entry: object) -> bool:
    if not isinstance(name, str) or not isinstance(entry, dict):
        return False
    return all(isinstance(key, str) and isinstance(value, int | str | bool) for key, value in entry.items())


def _unusable(problem: str, node: ast.expr) -> UsageError:
    return UsageError(f"{NAME}, line {node.lineno}, {problem}", hint='write it as {"wrapper": {"BLOCK": 128}}')
