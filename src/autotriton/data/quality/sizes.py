"""Programs that are written for one size only."""

from __future__ import annotations

import ast

from autotriton.syntax import parse_source

_ALLOCATIONS = frozenset(("empty", "zeros", "full"))


def leading_size_is_fixed(code: str) -> bool:
    """A result is allocated with a number in front, as `torch.empty((1, C, H, W))`: its batch is gone from the program.

    Right for the task it was written for; a model that learns it writes it for other batches too.
    """
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _ALLOCATIONS
        and bool(node.args)
        and _starts_with_a_number(node.args[0])
        for node in ast.walk(parse_source(code))
    )


def _starts_with_a_number(shape: ast.expr) -> bool:
    if not isinstance(shape, ast.Tuple | ast.List) or len(shape.elts) < 2:
        return False
    first = shape.elts[0]
    return isinstance(first, ast.Constant) and isinstance(first.value, int)
