"""A gold file's two parts, read without running it: the implementation, and the test below a line of 146 `#`."""

from __future__ import annotations

import ast
import builtins
import warnings

from autotriton.syntax import parse_source

SEPARATOR = "#" * 146


def split(source: str) -> tuple[str, str]:
    """Implementation and test. The test is what follows the last separator, as in the suite's own scripts."""
    implementation, found, test = source.rpartition(SEPARATOR)
    if not found:
        raise ValueError("it has no line of 146 `#` between the implementation and its test")
    return implementation, test


def script(implementation: str, test: str) -> str:
    """The file the suite's own scripts run."""
    return f"{implementation}\n{SEPARATOR}\n{test}"


def entries(source: str) -> tuple[str, ...]:
    """Top-level names of the implementation that the test uses and does not define itself: what a candidate must
    define."""
    implementation, test = (_parse(part) for part in split(source))
    defined = _bound(implementation.body)
    own = _bound(test.body)
    used = dict.fromkeys(node.id for node in ast.walk(test) if isinstance(node, ast.Name))
    return tuple(name for name in used if name in defined and name not in own)


def borrowed(code: str, test: str) -> str:
    """The test's top-level imports of names that the code uses and binds nowhere, as lines to put below it.

    In one script with its test such code runs; so it must where the two are apart.
    """
    try:
        tree = _parse(code)
    except (SyntaxError, ValueError):
        return ""
    free = _free(tree)
    lines = []
    for node in _parse(test).body:
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
            wanted = [name for name in node.names if (name.asname or name.name.partition(".")[0]) in free]
            if wanted:
                kept = ast.Import(wanted) if isinstance(node, ast.Import) else _from(node, wanted)
                lines.append(ast.unparse(kept))
    return "\n".join(dict.fromkeys(lines))


def completed(code: str, test: str) -> str:
    """The code with what it borrows below it; its own lines keep their numbers."""
    lines = borrowed(code, test)
    return f"{code}\n{lines}\n" if lines else code


def _from(node: ast.ImportFrom, names: list[ast.alias]) -> ast.ImportFrom:
    return ast.ImportFrom(node.module, names, node.level)


def _free(tree: ast.Module) -> set[str]:
    """Names read somewhere and bound nowhere in the file."""
    read, bound = set[str](), set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return read - bound


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse_source(text)


def _bound(body: list[ast.stmt]) -> set[str]:
    """Functions, classes and names given a computed value; inside `if`, `try` and `with` too. No imports, no
    numbers."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute | ast.Call | ast.Name):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]
            found |= _bound(inner)
    return found
