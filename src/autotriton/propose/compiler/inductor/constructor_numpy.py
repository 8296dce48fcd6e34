"""numpy's functions of plain numbers as those of `math`, for a constructor whose file may not import numpy.

Must stay true: only functions that mean the same for numbers. Given an array, those of `math` raise; they never answer
something else.
"""

from __future__ import annotations

import ast

_SAME = frozenset(
    """
    pi e inf nan sqrt exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh prod floor ceil trunc hypot gcd lcm
    cbrt exp2 degrees radians isnan isinf isfinite copysign fmod
    """.split()  # noqa: SIM905 - words read better than a list of forty lines
)
_RENAMED = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "power": "pow"}


def numpy_as_math(tree: ast.Module) -> ast.Module:
    """`np.log2(8)` becomes `math.log2(8)`; what has no such name stays, and its import with it."""
    called = {(alias.asname or alias.name) for alias in _imports(tree) if alias.name == "numpy"}
    replaced = _Replaced(called)
    if called and _math_is_free(tree):
        tree = replaced.visit(tree)
        if replaced.count:
            tree.body.insert(_place(tree), ast.Import([ast.alias("math")], lineno=1, col_offset=0))
            ast.fix_missing_locations(tree)
    return tree


def _place(tree: ast.Module) -> int:
    """Before the first import that is not of `__future__`."""
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
            return place
    return 0


def _imports(tree: ast.Module) -> list[ast.alias]:
    return [alias for node in tree.body if isinstance(node, ast.Import) for alias in node.names]


def _math_is_free(tree: ast.Module) -> bool:
    """Nothing but the module is called `math`."""
    bound = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "math"]
    return all(isinstance(node.ctx, ast.Load) for node in bound) and not any(
        alias.asname == "math" for alias in _imports(tree)
    )


class _Replaced(ast.NodeTransformer):
    def __init__(self, called: set[str]) -> None:
        self.called, self.count = called, 0

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = _RENAMED.get(node.attr, node.attr)
        if isinstance(node.value, ast.Name) and node.value.id in self.called and (name in _SAME or name != node.attr):
            self.count += 1
            return ast.copy_location(ast.Attribute(ast.Name("math", ast.Load()), name, node.ctx), node)
        return self.generic_visit(node)
