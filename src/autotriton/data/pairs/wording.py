"""The question a pair answers, in the two ways benchmarks ask: "rewrite this module", and prose with a signature and a
formula. Several wordings of each, so that a model learns the wish and not the phrase.
"""

from __future__ import annotations

import ast
from random import Random

from autotriton.propose.prompt import fenced, wanted
from autotriton.syntax import parse_source
from autotriton.types import Mode, Task

_ORDERS = (
    "Rewrite this PyTorch program with Triton kernels that compute the same results.",
    "Replace the PyTorch operators of this program by Triton kernels. The results must stay the same.",
    "Here is a PyTorch reference. Write an equivalent that does all of its arithmetic in Triton.",
    "Speed this module up: write Triton kernels for everything it computes.",
    "Translate the following into Triton. It is checked against the original on other inputs and weights.",
)
_RULES = (
    "All arithmetic happens in the kernels; torch only allocates and changes views.",
    "Torch may allocate and reshape tensors, nothing else; every computation is a kernel's.",
    "No torch operator may compute: kernels do all of the work.",
)
_ENDINGS = (
    "Explain your plan in a few sentences, then answer with one fenced `python` block that holds the whole file.",
    "Say briefly how you parallelise it, then give the whole file in one `python` block.",
    "First a short plan, then the complete program in one fenced block.",
)
_PROSE = (
    "Write a Triton implementation of the following.",
    "You are an expert in Triton. Implement what is described here with custom kernels.",
    "Implement this operation as a Triton program.",
)


def rewrite(task: Task, draw: Random, code: str = "") -> str:
    """The program is given. With `code`, what is asked for is what it defines."""
    order, rule, ending = draw.choice(_ORDERS), draw.choice(_RULES), draw.choice(_ENDINGS)
    return f"{order}\n\n{fenced(task.source)}\n\n{request(task, code)} {rule} {ending}"


def prose(task: Task, draw: Random, code: str = "") -> str | None:
    """The program is not given: its signature, its constructor and its steps are. None where they would not say all of
    it: steps that branch, or that use what is defined elsewhere in the file.
    """
    tree = parse_source(task.source)
    entry = next((node for node in tree.body if getattr(node, "name", None) == task.entry), None)
    parts = _parts(tree, entry)
    if parts is None:
        return None
    constructor, signature, steps = parts
    listed = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    purpose = _purpose(tree, entry)
    if draw.random() < 0.5:
        lines = [draw.choice(_PROSE), f"Signature: `{signature}`", f"{purpose}It computes, step by step:\n{listed}"]
    else:  # as TritonBench words it
        described = f"Functional description: {purpose}In detail:\n{listed}"
        lines = [draw.choice(_PROSE), described, f"Wrapper entry information: `{signature}`"]
    if constructor:
        lines.append(f"The module is constructed like this and keeps these parameters:\n\n{fenced(constructor)}")
    return "\n\n".join([*lines, f"{request(task, code)} {draw.choice(_RULES)} {draw.choice(_ENDINGS)}"])


def _purpose(tree: ast.Module, entry: ast.stmt | None) -> str:
    """What the program says of itself, as a sentence; nothing where it says nothing."""
    places = [place for place in (entry, tree) if isinstance(place, ast.Module | ast.ClassDef | ast.FunctionDef)]
    said = next(filter(None, map(ast.get_docstring, places)), "")
    first = " ".join(said.split("\n\n")[0].split())
    return f"{first.rstrip('.')}. " if first else ""


def request(task: Task, code: str = "") -> str:
    """What has to be defined."""
    want = wanted(task)
    if want.is_function and "\nclass ModelNew" in code:
        return f"Write a class `ModelNew`, an `nn.Module` whose `forward` does the work of `{task.entry}`."
    if want.is_function and f"\ndef {task.entry}(" in code:
        return f"Write `{task.entry}` anew: a function of that name with these arguments and results."
    if want.is_function:
        return f"Write a function `{want.name}` that takes the arguments of `{task.entry}` and returns what it returns."
    mode = "training" if task.mode is Mode.TRAIN else "evaluation"
    return (
        f"Write a class `{want.name}`, an `nn.Module` that is constructed and called like `{task.entry}`. "
        f"It is judged in {mode} mode."
    )


def _parts(tree: ast.Module, entry: ast.stmt | None) -> tuple[str, str, list[str]] | None:
    """The constructor's text, the signature, and the steps of a program that is a single class or function."""
    if isinstance(entry, ast.FunctionDef):
        constructor, body = "", entry
    elif isinstance(entry, ast.ClassDef):
        methods = {node.name: node for node in entry.body if isinstance(node, ast.FunctionDef)}
        if set(methods) - {"__init__", "forward"} or "forward" not in methods:
            return None
        constructor, body = ast.unparse(methods["__init__"]) if "__init__" in methods else "", methods["forward"]
        if "__init__" in methods and _foreign(methods["__init__"], tree):
            return None
    else:
        return None
    steps = [_step(statement) for statement in _without_docstring(body)]
    if _foreign(body, tree) or not all(steps):
        return None
    return constructor, f"{body.name}({ast.unparse(body.args)})", [step for step in steps if step]


def _step(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Return) and statement.value is not None:
        return f"return `{ast.unparse(statement.value)}`"
    return f"`{ast.unparse(statement)}`" if isinstance(statement, ast.Assign | ast.AugAssign) else None


def _without_docstring(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _foreign(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Uses something the file defines besides."""
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return any(isinstance(node, ast.Name) and node.id in defined for node in ast.walk(function))
