"""Programs without what does not matter: names, comments, docstrings, layout. Numbers stay: sizes matter."""

from __future__ import annotations

import ast
import hashlib
import io
import keyword
import tokenize

from autotriton.syntax import parse_source

_KEPT = frozenset(
    ("torch", "nn", "F", "tl", "triton", "math", "self", "forward", "super", "__init__", "Model", "ModelNew")
)


def normal_form(source: str) -> str | None:
    """A text two programs share exactly if they differ in names, comments and layout only; None if it is no Python,
    or nested too deeply to be walked.
    """
    try:
        return ast.dump(_Renamer().visit(_without_docstrings(parse_source(source))))
    except (SyntaxError, ValueError, RecursionError):
        return None


def digest(source: str) -> str | None:
    form = normal_form(source)
    return None if form is None else hashlib.sha256(form.encode()).hexdigest()[:20]


def tokens(source: str) -> list[str]:
    """The program's words with variables as one word, for overlap in runs of words."""
    words: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME or token.type in (tokenize.OP, tokenize.NUMBER):
                words.append(token.string)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return source.split()
    return words


def shingles(source: str, length: int) -> set[str]:
    """Runs of `length` words."""
    words = tokens(source)
    return {" ".join(words[start : start + length]) for start in range(max(1, len(words) - length + 1))}


class _Renamer(ast.NodeTransformer):
    """The first name met is v0, the next v1. Attributes and foreign functions keep theirs: they say what is done."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self._new(node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.copy_location(ast.arg(self._new(node.arg)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name, node.returns = self._new(node.name), None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.name = self._new(node.name)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = self._new(f"self.{node.attr}")
        return node

    def _new(self, name: str) -> str:
        if name in _KEPT or keyword.iskeyword(name):
            return name
        return self._names.setdefault(name, f"v{len(self._names)}")


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body:
            continue
        first = body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            body[:] = body[1:] or [ast.Pass()]
    return tree
