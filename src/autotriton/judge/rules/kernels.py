"""Kernels: the entry exists and a @triton.jit function is reachable from it.

Reachable means by name, through module-level functions, classes and assignments; it is a cheap necessary condition.
Whether the kernel is launched and does the work is decided at run time, never here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.facts import JIT, Facts
from autotriton.judge.rules.source import Source, error, warning
from autotriton.types import Finding, Policy, Severity

_SMELLS = {
    "inline_asm_elementwise": "inline assembly is read by nobody here; prefer Triton operations",
    "device_print": "printing from the device slows the kernel and counts for nothing",
}


def check(source: Source, facts: Facts) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and (smell := _SMELLS.get(node.attr)):
            yield warning("kernel-smell", node, smell)
        if isinstance(node, ast.keyword) and node.arg == "ir_override":
            yield error(
                "kernel-internals", node.value, "`ir_override` replaces the compiled kernel; write it in Triton"
            )
    yield from _entry(source, facts)


def _entry(source: Source, facts: Facts) -> Iterator[Finding]:
    definitions = _definitions(source)
    missing = [name for name in source.entries if name not in definitions]
    if missing:
        yield _whole_file("no-entry", f"no class or function `{missing[0]}` at the top level of the file; define it")
        return
    calls = [n for n in source.nodes if isinstance(n, ast.Name | ast.Attribute) and source.paths(n) & JIT]
    if not facts.kernels and not calls:
        yield _whole_file("no-kernel", "no @triton.jit function in the file; write the computation as a Triton kernel")
        return
    if source.policy is Policy.PAPER or not source.entries:
        return
    targets: set[ast.AST] = {*facts.kernels, *calls}
    if not any(_reaches(_reached(entry, definitions), targets) for entry in source.entries):
        where = "in `forward`" if source.entries == ("ModelNew",) else "there"
        yield _whole_file(
            "no-reachable-kernel",
            f"`{source.entries[0]}` never refers to a @triton.jit function; launch the kernel {where}",
        )


def _whole_file(rule: str, message: str) -> Finding:
    return Finding(rule=rule, severity=Severity.ERROR, message=message)


def _definitions(source: Source) -> dict[str, list[ast.AST]]:
    """Module-level name -> the statements that give it meaning, registrations included."""
    found: dict[str, list[ast.AST]] = {}
    module = source.scopes[source.tree]
    for name, places in module.names.items():
        found.setdefault(name, []).extend(_statement(source, place.node) for place in places)
    for node in source.nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            root: ast.AST = node
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in found and source.enclosing_function(node) is None:
                found[root.id].append(_statement(source, node))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and source.scopes[node] is module:
            _link_decorators(node, found)
    return found


def _link_decorators(node: ast.FunctionDef | ast.ClassDef, found: dict[str, list[ast.AST]]) -> None:
    """`@register("x") def f`: whoever reads the registry can reach f."""
    for decorator in node.decorator_list:
        for name in _names(decorator):
            for statement in list(found.get(name, ())):
                if isinstance(statement, ast.FunctionDef) and statement is not node:
                    for used in [name, *_names(statement)]:
                        if used in found:
                            found[used].append(node)


def _statement(source: Source, node: ast.AST) -> ast.AST:
    """The smallest statement around a node: the assignment for a name, the node itself for a definition."""
    while not isinstance(node, ast.stmt) and node in source.parents:
        node = source.parents[node]
    return node


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _reached(entry: str, definitions: dict[str, list[ast.AST]]) -> set[ast.AST]:
    """Every statement reachable by name from the entry."""
    names, todo, statements = {entry}, [entry], set[ast.AST]()
    while todo:
        for statement in definitions.get(todo.pop(), ()):
            if statement in statements:
                continue
            statements.add(statement)
            fresh = {name for name in _names(statement) if name in definitions} - names
            names |= fresh
            todo += fresh
    return statements


def _reaches(statements: set[ast.AST], kernels: set[ast.AST]) -> bool:
    return any(part in kernels for statement in statements for part in ast.walk(statement))
