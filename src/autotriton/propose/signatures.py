"""What a script task's test needs of a file: names and signatures, read off the gold without showing its bodies."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from autotriton.syntax import parse_source
from autotriton.types import Task

SCRIPT_TAG = "script"
_SEPARATOR = "#" * 146


@dataclass(frozen=True)
class Needed:
    """One top-level name the test uses."""

    name: str
    text: str
    """Its signature; a class with the signatures of its methods."""


def is_script(task: Task) -> bool:
    """The task is a file of functions with a test, and no module."""
    return SCRIPT_TAG in task.tags


def needed(task: Task) -> tuple[Needed, ...]:
    """The implementation's names that the test uses, in the order of the file; all of them where it uses none."""
    implementation, _, test = task.source.rpartition(_SEPARATOR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        body = parse_source(implementation).body
        used = {node.id for node in ast.walk(parse_source(test)) if isinstance(node, ast.Name)}
    found = {item.name: item for statement in body for item in _described(statement, body)}
    return tuple(item for name, item in found.items() if name in used) or tuple(found.values())


def _described(statement: ast.stmt, body: list[ast.stmt]) -> list[Needed]:
    if isinstance(statement, ast.FunctionDef):
        return [Needed(statement.name, _signature(statement))]
    if isinstance(statement, ast.ClassDef):
        return [Needed(statement.name, _outline(statement))]
    if isinstance(statement, ast.If | ast.Try):
        return [item for inner in statement.body for item in _described(inner, body)]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name, value = statement.targets[0].id, ast.unparse(statement.value)
        if value.endswith(".apply"):
            return [Needed(name, f"{name} = {value}  # {_forward(value.removesuffix('.apply'), body)}")]
    return []


def _forward(owner: str, body: list[ast.stmt]) -> str:
    """What an autograd function is applied to: the parameters of its forward but the context."""
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name == owner:
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "forward":
                    return f"takes ({', '.join(argument.arg for argument in inner.args.args[1:])})"
    return "an autograd function"


def _signature(function: ast.FunctionDef, indent: str = "") -> str:
    kernel = any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    head = f"{indent}def {function.name}({ast.unparse(function.args)}){returns}: ..."
    return f"{indent}@triton.jit\n{head}" if kernel else head


def _outline(owner: ast.ClassDef) -> str:
    methods = [_signature(inner, "    ") for inner in owner.body if isinstance(inner, ast.FunctionDef)]
    bases = f"({', '.join(ast.unparse(base) for base in owner.bases)})" if owner.bases else ""
    return "\n".join([f"class {owner.name}{bases}:", *(methods or ["    ..."])])
