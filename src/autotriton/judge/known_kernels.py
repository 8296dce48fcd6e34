"""Kernels that were compiled before: the same text, launched the same way, is not compiled a second time.

Answers of a language model to one task differ in a few lines, and most of their kernels are the same to the letter.
What a kernel compiles to follows from its text and the texts of what it uses. Where all of that stands in plain sight,
a file of just these statements is made; compiling that runs nothing else of the candidate's, so that the result may be
believed for every other candidate with the same text.

Must stay true: what is kept was compiled from an excerpt alone, and only success is kept. Whatever is refused is
compiled again as the whole candidate, whose lines the message then names.

Covered: functions at the top of the file under `@triton.jit`, with autotuners or heuristics around it or not; what they
name must be another such function, a name imported from Triton or `math`, a literal or a builtin. Everything else is
compiled as part of its file, as if it had never been seen.
"""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotriton.judge.launches import Launch, launch_key
from autotriton.syntax import parse_source
from autotriton.types import Kernel

_MOST = 8192
"""Kernels that are remembered."""
_PACKAGES = frozenset({"triton", "math"})
_WRAPPERS = frozenset({"autotune", "heuristics"})
"""They choose constants; the function below them is compiled with what they chose."""


@dataclass(frozen=True)
class Excerpt:
    """The statements that some kernels need, and nothing else of their file."""

    text: str
    keys: dict[str, str]
    """Kernel -> what its result is kept under."""


class KnownKernels:
    """Results by key, the ones used last; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: OrderedDict[str, Kernel] = OrderedDict()

    def get(self, key: str) -> Kernel | None:
        with self._lock:
            found = self._kernels.get(key)
            if found is not None:
                self._kernels.move_to_end(key)
            return found

    def put(self, key: str, kernel: Kernel) -> None:
        """Keeps a kernel that every target took and measured."""
        if not kernel.targets or any(each.error is not None or each.registers is None for each in kernel.targets):
            return
        with self._lock:
            self._kernels[key] = kernel
            while len(self._kernels) > _MOST:
                self._kernels.popitem(last=False)


def excerpt(code: str, launches: Sequence[Launch], targets: Sequence[str]) -> Excerpt | None:
    """What the launched kernels consist of; None where that does not stand in plain sight."""
    try:
        return _excerpt(code, launches, targets)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None  # launches are what the candidate's process says they are, and text may be nested without end


def _excerpt(code: str, launches: Sequence[Launch], targets: Sequence[str]) -> Excerpt | None:
    if any('"jit"' in json.dumps(launch["constants"]) for launch in launches):
        return None  # a function handed over as a constant: which one, only the running module knows
    file = _File(parse_source(code))
    keys: dict[str, str] = {}
    needed: set[int] = set()
    for kernel in dict.fromkeys(launch["kernel"] for launch in launches):
        own = file.needed(kernel)
        if own is None:
            return None
        needed |= own
        ways = sorted({launch_key(launch) for launch in launches if launch["kernel"] == kernel})
        told = json.dumps([file.text(own), kernel, ways, list(targets)])
        keys[kernel] = hashlib.sha256(told.encode()).hexdigest()
    return Excerpt(file.text(needed), keys)


class _File:
    """A candidate's top-level statements and the names they bind."""

    def __init__(self, tree: ast.Module) -> None:
        self.statements = tree.body
        self.rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        self.bound: dict[str, list[int]] = {}
        for number, statement in enumerate(tree.body):
            for name in _bound_names(statement):
                self.bound.setdefault(name, []).append(number)

    def needed(self, kernel: str) -> set[int] | None:
        """Numbers of the statements a kernel consists of; None where one of them is not plain."""
        found: set[int] = set()
        waiting, seen = [kernel], {kernel}
        while waiting:
            name = waiting.pop()
            places = self.bound.get(name, [])
            if not places and hasattr(builtins, name) and name != kernel:
                continue
            if len(places) != 1 or name in self.rebound:
                return None
            used = _plain_uses(self.statements[places[0]])
            if used is None or (name == kernel and not isinstance(self.statements[places[0]], ast.FunctionDef)):
                return None
            found.add(places[0])
            waiting += [each for each in used if each not in seen]
            seen |= used
        return found

    def text(self, numbers: set[int]) -> str:
        return "\n\n".join(ast.unparse(_bare(self.statements[number])) for number in sorted(numbers))


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names a top-level statement binds, in however deep a block, but for what is local to functions and classes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def _plain_uses(statement: ast.stmt) -> set[str] | None:
    """The top-level names a statement needs, where executing it runs nothing but Triton's own decorator; else None."""
    if isinstance(statement, ast.Import):
        packages = {alias.name.partition(".")[0] for alias in statement.names}
        return set() if packages <= _PACKAGES else None
    if isinstance(statement, ast.ImportFrom):
        named = all(alias.name != "*" for alias in statement.names)
        plain = not statement.level and (statement.module or "").partition(".")[0] in _PACKAGES
        return set() if plain and named else None
    if isinstance(statement, ast.FunctionDef):
        return _uses_of_function(statement)
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        return _uses_of_value(statement.value)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        value, told = _uses_of_value(statement.value), _uses_of_path(statement.annotation)
        return None if value is None or told is None else value | told
    return None


def _uses_of_function(function: ast.FunctionDef) -> set[str] | None:
    """Everything that is evaluated when it is defined must be a literal or a name; then what its body names."""
    jit = _jit_decorator(function)
    if jit is None or getattr(function, "type_params", None):
        return None
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if arguments.vararg or arguments.kwarg:
        return None
    uses = {"triton"}
    told = [each.annotation for each in every if each.annotation is not None]
    told += [function.returns] if function.returns is not None else []
    given = [each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None]
    for one in (*map(_uses_of_path, told), *map(_uses_of_value, given)):
        if one is None:
            return None
        uses |= one
    nodes = [node for line in function.body for node in ast.walk(line)]
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Import, ast.ImportFrom)
    if any(isinstance(node, scopes) for node in nodes):
        return None
    names = [node for node in nodes if isinstance(node, ast.Name)]
    local = {each.arg for each in every} | {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    return uses | {name.id for name in names if name.id not in local}


def _jit_decorator(function: ast.FunctionDef) -> ast.Attribute | ast.Call | None:
    """`@triton.jit`, with literal keywords or none, innermost; around it only what chooses constants.

    A keyword may be a function that Triton calls while it compiles, so no names are taken there.
    """
    if not function.decorator_list:
        return None
    *outer, jit = function.decorator_list
    called = jit.func if isinstance(jit, ast.Call) and not jit.args else jit
    if not _is_of_triton(called, {"jit"}) or not isinstance(jit, ast.Attribute | ast.Call):
        return None
    told = jit.keywords if isinstance(jit, ast.Call) else []
    fine = all(isinstance(each, ast.Call) and _is_of_triton(each.func, _WRAPPERS) for each in outer)
    return jit if fine and all(_uses_of_value(keyword.value) == set() for keyword in told) else None


def _is_of_triton(node: ast.AST | None, names: frozenset[str] | set[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in names
        and isinstance(node.value, ast.Name)
        and node.value.id == "triton"
    )


def _uses_of_value(value: ast.expr) -> set[str] | None:
    """Of a literal, a path into a module (`tl.float32`), or `tl.constexpr` around one."""
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        path, inner = _uses_of_path(value.func), _uses_of_value(value.args[0])
        fine = isinstance(value.func, ast.Attribute) and value.func.attr == "constexpr"
        return path | inner if fine and path is not None and inner is not None else None
    if isinstance(value, ast.Tuple | ast.List):
        found: set[str] = set()
        for item in value.elts:
            one = _uses_of_value(item)
            if one is None:
                return None
            found |= one
        return found
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        return set() if isinstance(value.operand, ast.Constant) else None
    return _uses_of_path(value)


def _uses_of_path(value: ast.expr) -> set[str] | None:
    """Of a literal, a name or a name's attributes."""
    if isinstance(value, ast.Constant):
        return set()
    while isinstance(value, ast.Attribute):
        value = value.value
    return {value.id} if isinstance(value, ast.Name) else None


def _bare(statement: ast.stmt) -> ast.stmt:
    """A kernel without what is around `@triton.jit` and without its docstring."""
    if not isinstance(statement, ast.FunctionDef):
        return statement
    first, *rest = statement.body
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    bare = copy.copy(statement)
    bare.body = rest if told and rest else statement.body
    bare.decorator_list = statement.decorator_list[-1:]
    return bare
