"""Python's syntax trees, made by one thread at a time.

CPython counts the depth of the tree it builds in one place for all threads (seen with 3.11): where a collection of
garbage lets another thread in, the first one fails with "AST constructor recursion depth mismatch", about a program
that is in order. Everything of ours that may run beside other threads parses through here.
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_LOCK = threading.RLock()


def parse_source(source: str, filename: str = "<unknown>") -> ast.Module:
    """A program's tree; raises what `ast.parse` raises."""
    with _LOCK:
        return ast.parse(source, filename)


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression."""
    with _LOCK:
        return ast.parse(source, mode="eval").body


def parse_literal(source: str | ast.AST) -> Any:
    """The value of a literal, given as text or as its tree."""
    with _LOCK:
        return ast.literal_eval(source)
