"""Inductor's kernel helpers, inlined where used: `triton_helpers.maximum` becomes a `maximum` in the emitted file.

Reductions that Inductor spells with a Python combine function are written with `tl.max` and `tl.sum` instead, which
Triton's interpreter runs about 200 times quicker; NaN still wins a maximum, and ties still go to the lower index.
"""

from __future__ import annotations

import ast

from autotriton.syntax import parse_source

# Triton's own run in its interpreter, where libdevice is a stub, and are accurate to about two units in the last place.
_MATH = frozenset(("abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt"))
_PREFIX = "helper_"

_REPLACEMENTS = """
@triton.jit
def max2(a, dim):
    best = tl.max(a, dim)
    if a.dtype.is_floating():
        best = tl.where(tl.max((a != a).to(tl.int32), dim) > 0, float("nan"), best)
    return best

@triton.jit
def min2(a, dim):
    best = tl.min(a, dim)
    if a.dtype.is_floating():
        best = tl.where(tl.max((a != a).to(tl.int32), dim) > 0, float("nan"), best)
    return best

@triton.jit
def any(a, dim):
    return tl.max((a != 0).to(tl.int32), dim) > 0

@triton.jit
def max_with_index(value, index, dim):
    best = tl.max(value, dim, keep_dims=True)
    hit = value == best
    if value.dtype.is_floating():
        nan = value != value
        hit = tl.where(tl.max(nan.to(tl.int32), dim, keep_dims=True) > 0, nan, hit)
    return (max2(value, dim), tl.min(tl.where(hit, index, 2147483647), dim))

@triton.jit
def min_with_index(value, index, dim):
    best = tl.min(value, dim, keep_dims=True)
    hit = value == best
    if value.dtype.is_floating():
        nan = value != value
        hit = tl.where(tl.max(nan.to(tl.int32), dim, keep_dims=True) > 0, nan, hit)
    return (min2(value, dim), tl.min(tl.where(hit, index, 2147483647), dim))

@triton.jit
def welford(mean, m2, weight, dim):
    total = tl.sum(weight, dim, keep_dims=True)
    count = tl.where(total == 0.0, 1.0, total)
    centre = tl.sum(mean * weight, dim, keep_dims=True) / count
    away = mean - centre
    new_mean = tl.sum(mean * weight / count, dim)
    return (new_mean, tl.sum(m2 + weight * away * away, dim), tl.sum(weight, dim))
"""


class HelperCalls(ast.NodeTransformer):
    """Rewrites references to Inductor's modules inside kernels and remembers which helpers they need."""

    def __init__(self, source: str) -> None:
        self.known = {**_definitions(source), **_definitions(_REPLACEMENTS)}
        self.written: dict[str, str] = {}
        self.libdevice = False

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name):
            return node
        base, name = node.value.id, node.attr
        if base == "triton_helpers":
            return ast.Name(self._need(name), node.ctx)
        if base in ("libdevice", "tl_math", "math") and name in _MATH:
            return ast.Attribute(ast.Name("tl", ast.Load()), name, node.ctx)
        if base in ("libdevice", "tl_math", "math"):
            self.libdevice = True
            return ast.Attribute(ast.Name("libdevice", ast.Load()), name, node.ctx)
        return node

    def _need(self, name: str) -> str:
        """The emitted name of a helper, written together with what it uses itself."""
        if name not in self.known:
            raise KeyError(name)
        if name in self.written:
            return _PREFIX + name
        self.written[name] = ""  # a helper may call itself
        node = parse_source(ast.unparse(self.known[name])).body[0]
        node = _Qualified(self, _locals(node)).visit(node)
        node = self.visit(node)
        if isinstance(node, ast.FunctionDef):
            node.name = _PREFIX + name
            node.body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
        else:
            _first_target(node).id = _PREFIX + name
        self.written.pop(name)
        self.written[name] = ast.unparse(ast.fix_missing_locations(node))
        return _PREFIX + name


class _Qualified(ast.NodeTransformer):
    """Names a helper takes from its own module, as if from outside: `maximum` is `triton_helpers.maximum`."""

    def __init__(self, calls: HelperCalls, hidden: set[str]) -> None:
        self.calls, self.hidden = calls, hidden

    def visit_Name(self, node: ast.Name) -> ast.AST:
        inside = node.id in self.calls.known and node.id not in self.hidden and isinstance(node.ctx, ast.Load)
        return ast.Attribute(ast.Name("triton_helpers", ast.Load()), node.id, ast.Load()) if inside else node


def _definitions(source: str) -> dict[str, ast.stmt]:
    """Jitted functions and constants of a module."""
    found: dict[str, ast.stmt] = {}
    for node in parse_source(source).body:
        if isinstance(node, ast.FunctionDef):
            if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
                found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "tl.constexpr" in ast.unparse(node):
            found[_first_target(node).id] = node
    return found


def _first_target(node: ast.stmt) -> ast.Name:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if not isinstance(target, ast.Name):
        raise TypeError(ast.unparse(node))
    return target


def _locals(node: ast.AST) -> set[str]:
    arguments = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    return arguments | {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
