"""Other names in a program, everything else as it was. By tokens, so that comments and layout stay.

Must stay true: a name is changed everywhere or nowhere. Names that are also attributes, keywords of foreign calls or
parts of strings that mean something else are left alone.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import tokenize
from collections.abc import Mapping

from autotriton.syntax import parse_source

_TAKEN = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"self", "torch", "nn", "tl", "triton", "math", "F"}


def renamed(code: str, names: Mapping[str, str]) -> str:
    """The program with those of `names` that can be changed safely."""
    fixed = fixed_names(code)
    safe = {old: new for old, new in names.items() if old != new and old not in fixed}
    used = {token.string for token in _tokens(code) if token.type == tokenize.NAME}
    safe = {old: new for old, new in safe.items() if new not in used and new not in _TAKEN and new.isidentifier()}
    if len(set(safe.values())) != len(safe):
        return code  # two names would become one
    return _replaced(code, safe)


def fixed_names(code: str) -> set[str]:
    """Names that somebody outside the program knows: attributes, what it must define, keywords of foreign calls."""
    tree = parse_source(code)
    fixed: set[str] = {"ModelNew"}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            fixed.add(node.attr)
        elif isinstance(node, ast.Call):
            launched = isinstance(node.func, ast.Subscript)
            called = isinstance(node.func, ast.Name) and node.func.id in own
            if not (launched or called):
                fixed |= {word.arg for word in node.keywords if word.arg is not None}
        elif isinstance(node, ast.ClassDef):
            # A caller may name the constructor's and forward's arguments.
            for function in node.body:
                if isinstance(function, ast.FunctionDef):
                    fixed |= {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
                    fixed.add(function.name)
    return fixed | {"num_warps", "num_stages", "num_ctas", "grid"}


def _replaced(code: str, names: Mapping[str, str]) -> str:
    lines = code.splitlines(keepends=True)
    changes: list[tuple[int, int, int, str]] = []
    for token in _tokens(code):
        new = _new(token, names)
        if new is not None:
            (row, start), (_, end) = token.start, token.end
            changes.append((row - 1, start, end, new))
    for row, start, end, new in sorted(changes, reverse=True):
        lines[row] = lines[row][:start] + new + lines[row][end:]
    return "".join(lines)


def _new(token: tokenize.TokenInfo, names: Mapping[str, str]) -> str | None:
    if token.type == tokenize.NAME:
        return names.get(token.string)
    if token.type == tokenize.STRING and token.string[:1] in "\"'" and token.string[1:-1] in names:
        return token.string[0] + names[token.string[1:-1]] + token.string[-1]  # a key of TILES
    return None


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(code).readline))
