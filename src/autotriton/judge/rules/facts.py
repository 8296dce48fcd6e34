"""What the candidate file itself defines: classes, plain functions, kernels, instances and attribute names.

What must stay true: `is_own` answers yes only for names whose every binding is the file's own class, plain function or
an instance made by calling one (or an `nn` layer), so storing an attribute there cannot reach a library object.
"""

from __future__ import annotations

import ast

from autotriton.judge.rules.scopes import Binding
from autotriton.judge.rules.source import Source
from autotriton.judge.rules.tables import SENSITIVE_CLASSES

JIT = frozenset({"triton.jit"})
_WRAPPERS = frozenset({"triton.autotune", "triton.heuristics", "triton.runtime.autotune", "triton.runtime.heuristics"})


class Facts:
    """Answers questions about the file's own definitions."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._kernel_names: dict[tuple[int, str], bool] = {}
        self._own_names: dict[tuple[int, str], bool] = {}
        self.kernels = {node for node in source.nodes if isinstance(node, ast.FunctionDef) and self._jitted(node)}
        self.attributes = frozenset(name for node in source.nodes for name in _defined_attributes(source, node))
        self.fields = self._self_fields()

    def is_kernel(self, name: ast.Name) -> bool:
        """The name may stand for a @triton.jit function of this file."""
        key = (id(self.source.scopes[name]), name.id)
        if key not in self._kernel_names:
            places = self.source.lookup(name)
            self._kernel_names[key] = any(b.node in self.kernels or self._makes_kernel(b.value) for b in places)
        return self._kernel_names[key]

    def is_own(self, name: ast.Name) -> bool:
        key = (id(self.source.scopes[name]), name.id)
        if key not in self._own_names:
            bindings = self.source.lookup(name)
            self._own_names[key] = bool(bindings) and all(self._own_binding(binding) for binding in bindings)
        return self._own_names[key]

    def made_here(self, value: ast.expr | None) -> bool:
        """The expression calls one of the file's own classes, or builds an `nn` layer."""
        if not isinstance(value, ast.Call):
            return False
        if self.source.surely_imported(value.func):
            return all(_is_layer(path) for path in self.source.paths(value.func))
        return isinstance(value.func, ast.Name) and _all_classes(self.source.lookup(value.func))

    def _own_binding(self, binding: Binding) -> bool:
        node = binding.node
        if isinstance(node, ast.ClassDef):
            return True
        if isinstance(node, ast.FunctionDef):
            return not node.decorator_list
        return self.made_here(binding.value)

    def _jitted(self, node: ast.FunctionDef) -> bool:
        return any(self._is_jit(decorator) for decorator in node.decorator_list)

    def _is_jit(self, node: ast.expr) -> bool:
        """`triton.jit`, `triton.jit(...)`."""
        target = node.func if isinstance(node, ast.Call) else node
        return bool(self.source.paths(target) & JIT)

    def _makes_kernel(self, value: ast.expr | None) -> bool:
        """`triton.jit(f)`, `triton.autotune(...)(triton.jit(f))`, or another name of a kernel."""
        for _ in range(10):
            if isinstance(value, ast.Name):
                bindings = self.source.lookup(value)
                if any(b.node in self.kernels for b in bindings):
                    return True
                value = next((b.value for b in bindings if b.value is not None), None)
            elif isinstance(value, ast.Call) and not self._is_jit(value):
                inner = value.func
                wraps = isinstance(inner, ast.Call) and self.source.paths(inner.func) & (_WRAPPERS | JIT)
                value = value.args[0] if wraps and value.args else None
            else:
                return isinstance(value, ast.Call)
        return False

    def _self_fields(self) -> dict[str, list[ast.expr | None]]:
        """`self.x = value`: every value each field is given; None where it cannot be read off."""
        fields: dict[str, list[ast.expr | None]] = {}
        for node in self.source.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                parent = self.source.parents[node]
                plain = isinstance(parent, ast.Assign) and node in parent.targets
                value = parent.value if plain or isinstance(parent, ast.AnnAssign) else None  # type: ignore[attr-defined]
                fields.setdefault(node.attr, []).append(value)
        return fields


def _is_layer(path: str) -> bool:
    return path.startswith("torch.nn.") and path.rpartition(".")[2][:1].isupper() and path not in SENSITIVE_CLASSES


def _all_classes(bindings: list[Binding]) -> bool:
    return bool(bindings) and all(isinstance(b.node, ast.ClassDef) for b in bindings)


def _defined_attributes(source: Source, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    if source.scopes[node].is_class and isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if source.scopes[node].is_class and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    registers = {"register_buffer", "register_parameter", "add_module", "register_module"}
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in registers
        and node.args
    ):
        name = node.args[0]
        return [name.value] if isinstance(name, ast.Constant) and isinstance(name.value, str) else []
    return []
