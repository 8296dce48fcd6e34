"""A candidate as it can be taught: nothing in it that nobody could know, the name that was asked for, and no formula
that is not the kernel's own.
"""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from autotriton.data.pairs.rename import renamed
from autotriton.syntax import parse_expression, parse_source

_HEADING = re.compile(r'\A"""Triton kernels for [^\n]*\n\n')
_GENERATED = re.compile(r"Variant [^\n]*\n\n|Kernel bodies and helper functions are derived from PyTorch[^\n]*\n\n?")
_NOTICE = re.compile(r"\n+# Kernel bodies and helper functions above are derived from PyTorch(?:.|\n)*\Z")
"""For people; a data set's rows and card say it for all of them."""
_HINTED = re.compile(r"^ *# Neighbours in memory lie along the last dimension: [^\n]*\n", re.MULTILINE)
_LANGUAGE = "import triton.language as tl"
_LIBDEVICE = "from triton.language.extra import libdevice"
_CONSTANTS = frozenset({"inf", "nan", "pi", "e"})


def prepared(code: str, function: str | None) -> str:
    """`function`: what a plain function was asked to be called."""
    heading = _HEADING.match(code)
    if heading is not None:  # the task's id in a data set is no part of the question
        about, quotes, rest = code[heading.end() :].partition('"""')
        code = '"""' + _GENERATED.sub("", about).strip() + "\n" + quotes + _NOTICE.sub("\n", rest)
    code = with_libdevice(without_foreign_formulas(without_hints(code)))
    return code if function is None else as_function(code, function)


def with_libdevice(code: str) -> str:
    """The same imports in every answer: whether a kernel needs libdevice is known only after they are written."""
    if _LANGUAGE not in code:
        return code
    return code.replace(f"{_LIBDEVICE}\n", "").replace(f"{_LANGUAGE}\n", f"{_LANGUAGE}\n{_LIBDEVICE}\n", 1)


def without_hints(code: str) -> str:
    """What only tells the compiler how to lay out its lanes says nothing about the task, and is hard to get right."""
    while hints := [node for node in ast.walk(parse_source(code)) if _is_hint(node)]:
        hint = max(hints, key=lambda node: (node.lineno, node.col_offset))  # the innermost of nested ones comes last
        inside = ast.get_source_segment(code, hint.args[0]) or ""
        lines = code.split("\n")
        # Columns count bytes; a program whose hints stand behind other characters is left as it is.
        if not lines[hint.lineno - 1].isascii() or hint.end_lineno != hint.lineno or not inside:
            return code
        before, after = lines[hint.lineno - 1][: hint.col_offset], lines[hint.lineno - 1][hint.end_col_offset :]
        alone = before.rstrip()[-1:] in ("=", "(", ",") and after.lstrip()[:1] in ("", ")", ",")
        lines[hint.lineno - 1] = before + (inside if alone else f"({inside})") + after
        code = "\n".join(lines)
    return _HINTED.sub("", code)


def _is_hint(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("multiple_of", "max_contiguous")
        and len(node.args) == 2
    )


def without_foreign_formulas(code: str) -> str:
    """A formula over names its kernel does not have speaks of something else: of `x` where slices of x come in."""
    lines = code.split("\n")
    for node in reversed(parse_source(code).body):
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
            continue
        formula, _ = formula_of(ast.get_docstring(node) or "")
        if formula and not _own(formula, [argument.arg for argument in node.args.args]):
            quoted = node.body[0]
            del lines[quoted.lineno - 1 : quoted.end_lineno]
    return "\n".join(lines)


def formula_of(docstring: str) -> tuple[str, str]:
    """The formula a kernel's docstring begins with, if it does, and what else it says. The kernel's name may stand in
    front.
    """
    first, _, rest = docstring.partition("\n")
    first, rest = re.sub(r"^\w+: ", "", first.strip()), " ".join(rest.split())
    try:
        _parsed(first)
    except SyntaxError:
        return "", " ".join(filter(None, (first, rest)))
    return first, rest


def _parsed(formula: str) -> list[ast.expr]:
    """Several results are separated by semicolons."""
    return [parse_expression(part) for part in formula.split("; ")]


def _own(formula: str, arguments: list[str]) -> bool:
    for part in _parsed(formula):
        called = {id(node.func) for node in ast.walk(part) if isinstance(node, ast.Call)}
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name) and id(node) not in called}
        for name in names - _CONSTANTS:
            if name not in arguments and not any(argument.startswith(f"{name}_") for argument in arguments):
                return False
    return True


def as_function(code: str, name: str) -> str:
    """`ModelNew` as a plain function, where it holds nothing; else the code as it is."""
    tree = parse_source(code)
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]
    if len(models) != 1 or len(models[0].body) != 1 or models[0] is not tree.body[-1]:
        return code
    forward = models[0].body[0]
    if not isinstance(forward, ast.FunctionDef) or forward.name != "forward":
        return code
    if _taken(tree, name):  # by the wrapper of the only kernel, which is named after what it computes
        freed = renamed(code, {name: f"launch_{name}"})
        return code if freed == code else as_function(freed, name)
    if any(isinstance(node, ast.Name) and node.id == "self" for node in ast.walk(forward)):
        return code
    forward.args.args = forward.args.args[1:]
    lines = code.split("\n")
    body = [line[4:] for line in lines[forward.body[0].lineno - 1 : forward.end_lineno]]
    head = f"def {name}({ast.unparse(forward.args)}):"
    return "\n".join([*lines[: models[0].lineno - 1], head, *body, *lines[forward.end_lineno :]])


def _taken(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)
