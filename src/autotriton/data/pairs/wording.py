"""The question a pair answers, in the two ways benchmarks ask: "rewrite this module", and prose with a signature and a
formula. Several wordings of each, so that a model learns the wish and not the phrase.
"""

from __future__ import annotations

import ast
from random import Random

from autotriton.propose.prompt import fenced, wanted
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


def rewrite(task: Task, draw: Random) -> str:
    """The program is given; the shipped template's own wording is one of those drawn."""
    order, rule, ending = draw.choice(_ORDERS), draw.choice(_RULES), draw.choice(_ENDINGS)
    return f"{order}\n\n{fenced(task.source)}\n\n{request(task)} {rule} {ending}"


def prose(task: Task, formulas: list[str], draw: Random) -> str | None:
    """The program is not given: its constructor, its signature and the formula are. None where that says too little."""
    if not formulas or len(formulas) > 3 or task.entry != "Model":
        return None
    parts = _parts(task.source)
    if parts is None:
        return None
    constructor, signature = parts
    steps = "\n".join(f"- `{formula}`" for formula in formulas)
    lines = [draw.choice(_PROSE), f"Signature: `{signature}`", f"It computes, step by step:\n{steps}"]
    if constructor:
        lines.append(f"The module is constructed like this and keeps these parameters:\n\n{fenced(constructor)}")
    return "\n\n".join([*lines, f"{request(task)} {draw.choice(_RULES)} {draw.choice(_ENDINGS)}"])


def request(task: Task) -> str:
    """What has to be defined."""
    want = wanted(task)
    if want.is_function:
        return f"Write a function `{want.name}` that takes the arguments of `{task.entry}` and returns what it returns."
    mode = "training" if task.mode is Mode.TRAIN else "evaluation"
    return (
        f"Write a class `{want.name}`, an `nn.Module` that is constructed and called like `{task.entry}`. "
        f"It is judged in {mode} mode."
    )


def _parts(source: str) -> tuple[str, str] | None:
    """The constructor's text and forward's signature; None for modules made of several functions."""
    tree = ast.parse(source)
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    if len(models) != 1:
        return None
    methods = {node.name: node for node in models[0].body if isinstance(node, ast.FunctionDef)}
    if set(methods) - {"__init__", "forward"} or "forward" not in methods:
        return None
    signature = f"forward({ast.unparse(methods['forward'].args)})"
    constructor = ast.unparse(methods["__init__"]) if "__init__" in methods else ""
    return constructor, signature
