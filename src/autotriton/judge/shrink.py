"""A task at smaller shapes, for the interpreter: the integers in its constants and input functions scaled down until
they fit.

Tried on the meta device, so nothing large is ever made. What a candidate does at reduced shapes says little about a
kernel that is specialised to the real ones; a verdict that rests on this says so.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator

from autotriton.errors import TaskError
from autotriton.judge.program import Program, flatten
from autotriton.judge.trace import tensors_of
from autotriton.syntax import parse_source
from autotriton.types import Task

_INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")
_BATCHES = (2, 4)
# Each step: sizes at or below the first number stay; larger ones become a power of two that grows slowly with them.
_STEPS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((8, 8), (16, 8), (256, 16), (2048, 32), (1 << 62, 64)),
    ((16, 16), (64, 16), (1024, 32), (1 << 62, 64)),
    ((32, 32), (128, 32), (1 << 62, 64)),
    ((64, 64), (256, 64), (1 << 62, 128)),
    ((128, 128), (512, 128), (1 << 62, 256)),
    ((256, 256), (1 << 62, 512)),
)


def shrink(task: Task, at_most: int) -> Task | None:
    """The first reduced version whose inputs hold at most `at_most` elements and whose reference runs; None when none
    does.
    """
    try:
        tree = parse_source(task.source)
    except SyntaxError:
        return None
    for batch, steps in itertools.product(_BATCHES, _STEPS):
        source = _rewritten(tree, batch, lambda size, steps=steps: _smaller(size, steps))  # type: ignore[misc]
        reduced = task.model_copy(update={"source": source})
        if source != ast.unparse(tree) and _runs(reduced, at_most):
            return reduced
    return None


def _smaller(size: int, steps: tuple[tuple[int, int], ...]) -> int:
    first = steps[0][0]
    return size if size <= first else next(value for limit, value in steps[1:] if size <= limit)


def _rewritten(tree: ast.Module, batch: int, smaller: Callable[[int], int]) -> str:
    copy = parse_source(ast.unparse(tree))
    for statement in copy.body:
        if isinstance(statement, ast.FunctionDef) and statement.name in _INPUT_FUNCTIONS:
            _replace(statement, smaller)
        elif isinstance(statement, ast.Assign):
            name = ast.unparse(statement.targets[0]).lower()
            _replace(statement, (lambda size: min(size, batch)) if "batch" in name else smaller)
    return ast.unparse(copy)


def _replace(node: ast.AST, smaller: Callable[[int], int]) -> None:
    for constant in _integers(node):
        constant.value = smaller(constant.value)  # type: ignore[arg-type]


def _integers(node: ast.AST) -> Iterator[ast.Constant]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and type(child.value) is int and child.value > 1:
            yield child


def _runs(task: Task, at_most: int) -> bool:
    try:
        program = Program(task, "meta")
        inputs = program.draw(0)
        outputs = program.run(program.build(0), inputs)
    except TaskError:
        return False
    tensors = tensors_of([*inputs.leaves(), *flatten(outputs)[0]])
    return bool(tensors) and all(t.numel() for t in tensors) and sum(t.numel() for t in tensors) <= at_most
