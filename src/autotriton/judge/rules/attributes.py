"""Attributes: what may be read off modules, tensors, kernels and everything else, by name.

`x.name`, `getattr(x, "name")` and `case Cls(name=y)` are the same access here. Two layers: a dotted path rooted in an
import is checked against that module's table; any other base is checked against the names denied everywhere.
Private names are readable on self/cls/ctx and on the file's own classes and functions, when the file defines them.

Not covered: public attributes of objects that honest code uses too (`x.item()`, `module(x)`); later tiers see those.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotriton.judge.rules.facts import Facts
from autotriton.judge.rules.modules import DENIED, MODULE_FAMILIES, MODULES, SHUT_WORDS, TORCH_CLASSES
from autotriton.judge.rules.scopes import known_module
from autotriton.judge.rules.source import Source, constant_getattr, error
from autotriton.judge.rules.tables import (
    ATTRIBUTE_DUNDERS,
    DENIED_ATTRIBUTES,
    HOOKS,
    KERNEL_ATTRIBUTES,
    KERNEL_WORDS,
    PRIVATE_ALLOWED,
    RECEIVERS,
)
from autotriton.types import Finding, Policy

_HOOK = re.compile(r"_?register_\w*hook\w*")


def check(source: Source, facts: Facts) -> Iterator[Finding]:
    for node in source.nodes:
        for base, attr in _accesses(node):
            if (found := _access(source, facts, node, base, attr)) is not None:
                yield found


def _accesses(node: ast.AST) -> Iterator[tuple[ast.expr | None, str]]:
    if isinstance(node, ast.Attribute):
        yield node.value, node.attr
    elif isinstance(node, ast.MatchClass):
        yield from ((None, attr) for attr in node.kwd_attrs)
    elif (spelled := constant_getattr(node)) is not None:
        yield spelled


def _access(source: Source, facts: Facts, node: ast.AST, base: ast.expr | None, attr: str) -> Finding | None:
    modules = sorted(path for path in source.paths(base) if known_module(path))
    for module in modules:
        if (reason := denied_path(module, attr, source.policy)) is not None:
            return error("escape", node, reason)
    if modules and source.surely_imported(base):
        return None
    if is_dunder(attr):
        return None if _dunder_allowed(source, node, attr) else error("reflection", node, _dunder_message(attr))
    if (reason := denied_name(attr)) is not None:
        return error("escape", node, f"`.{attr}` is not available to candidates: it {reason}")
    operator = any(
        path.startswith("torch.ops.") for path in source.paths(base)
    )  # only reachable where policy allows it
    if attr.startswith("_") and not operator and not _private_allowed(facts, base, attr):
        return error("private", node, f"`.{attr}` is private to another library; use its public interface")
    return _kernel_access(source, facts, node, base, attr)


def denied_path(module: str, attr: str, policy: Policy) -> str | None:
    """Why `module.attr` may not be used; None when it may."""
    path = f"{module}.{attr}"
    offered = MODULES.get(module)
    if path == "torch.ops" and policy is not Policy.STRICT:
        return None
    if offered is not None:
        reason = DENIED_ATTRIBUTES.get(attr)
        why = f"it {reason}" if reason else f"`{module}` offers {_some(offered)}"
        return None if attr in offered else f"`{path}` is not available to candidates: {why}"
    if attr in DENIED.get(module, ()):
        return f"`{path}` is not available to candidates: {_meaning(attr)}"
    if known_module(path) or attr == "__version__":
        return None
    if module == "torch" and attr.startswith("set_") and attr not in {"set_grad_enabled", "set_printoptions"}:
        return f"`{path}` is not available to candidates: it changes global state"
    if attr in SHUT_WORDS:
        return f"`{path}` leads to another module; import what you need by its own name"
    if attr.startswith("_") and not path.startswith("triton.language._experimental_"):
        return f"`{path}` is private to `{module}`; use its public interface"
    if (module == "torch" and attr[0].isupper() and attr not in TORCH_CLASSES) or _outside_family(module, attr):
        return f"`{path}` is not available to candidates; use torch.Tensor, nn.Module and torch functions"
    if module == "torch.ops" or module.startswith("triton."):
        return None
    return None if (reason := denied_name(attr)) is None else f"`{path}` is not available to candidates: it {reason}"


def _outside_family(module: str, attr: str) -> bool:
    return module.startswith(MODULE_FAMILIES) and not attr[0].isupper()


def _meaning(attr: str) -> str:
    reason = DENIED_ATTRIBUTES.get(attr)
    return f"it {reason}" if reason else "compute in a Triton kernel and leave global state alone"


def _some(names: frozenset[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")


def denied_name(attr: str) -> str | None:
    """Why no object may be asked for this attribute; None when some may."""
    if attr in DENIED_ATTRIBUTES:
        return DENIED_ATTRIBUTES[attr]
    if _HOOK.fullmatch(attr) or attr.startswith(HOOKS):
        return "installs a callback that runs outside `forward`"
    return None


def is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def _dunder_allowed(source: Source, node: ast.AST, attr: str) -> bool:
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return attr in {"__name__", "__doc__", "__version__"} and not isinstance(node, ast.Attribute)
    if attr == "__class__":
        parent = source.parents[node]
        return isinstance(parent, ast.Attribute) and parent.attr in {"__name__", "__qualname__"}
    return attr in ATTRIBUTE_DUNDERS


def _dunder_message(attr: str) -> str:
    return f"`{attr}` reaches behind the object; use its public interface (only `__init__` and `__name__` are readable)"


def _private_allowed(facts: Facts, base: ast.expr | None, attr: str) -> bool:
    if attr in PRIVATE_ALLOWED:
        return True
    if attr not in facts.attributes or base is None:
        return False
    if isinstance(base, ast.Name):
        return base.id in RECEIVERS or base.id == "other" or facts.is_own(base)
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"


def _kernel_access(source: Source, facts: Facts, node: ast.AST, base: ast.expr | None, attr: str) -> Finding | None:
    if isinstance(base, ast.Name) and facts.is_kernel(base) and attr not in KERNEL_ATTRIBUTES:
        return error("kernel-internals", node, f"`{base.id}.{attr}` bypasses the launch; call `{base.id}[grid](...)`")
    receiver = isinstance(base, ast.Name) and base.id in RECEIVERS
    if attr in KERNEL_WORDS and not receiver and attr not in facts.attributes:
        return error(
            "kernel-internals", node, f"`.{attr}` reads a kernel's internals; launch it as `kernel[grid](...)`"
        )
    return None
