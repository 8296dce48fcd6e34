"""Programs that are written for one size only."""

from __future__ import annotations

import ast

from autotriton.syntax import parse_source

_ALLOCATIONS = frozenset(("empty", "zeros", "full"))


def sizes_are_fixed(code: str) -> bool:
    """A result is allocated with a number in front, as `torch.empty((1, C, H, W))`, or between names, as
    `torch.empty((N, C, 1, OH, OW))`: a size that was 1 is gone from the program.

    Right for the task it was written for; a model that learns it writes it for other sizes too.
    """
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "torch"  # a kernel's `tl.zeros((1, 1))` is no result
        and node.func.attr in _ALLOCATIONS
        and bool(node.args)
        and _holds_a_number(node.args[0])
        for node in ast.walk(parse_source(code))
    )


def _holds_a_number(shape: ast.expr) -> bool:
    if not isinstance(shape, ast.Tuple | ast.List) or len(shape.elts) < 2:
        return False
    numbers = [isinstance(size, ast.Constant) and isinstance(size.value, int) for size in shape.elts]
    # Kept dimensions of a reduction stand beside sizes read off a tensor, `x.shape[0]`, and are 1 at every size.
    return numbers[0] or (any(numbers) and any(isinstance(size, ast.Name) for size in shape.elts))
