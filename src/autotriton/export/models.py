"""The text of a package's `model.py`: the reference's class, or function, with the operator inside."""

from __future__ import annotations

import textwrap

from autotriton.export.facts import Facts
from autotriton.syntax import parse_source
from autotriton.types import Mode, Task

_CLASS = '''"""A drop-in for the reference's class: same constructor, same parameters by the same names."""

import torch

from . import reference
from .op import {imports}


class Model(reference.{entry}):
    """{entry} with its forward done by the kernels; what they are not for is left to the reference."""
{init}
    def forward(self, {signature}):
{others}
        given = {given}
{body}
        return {returned}
'''
VALUES = "values.pt"
_INIT = """
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        values = torch.load(Path(__file__).with_name("values.pt"), weights_only=True)
        with torch.no_grad():
            for name, value in values.items():
                self.get_buffer(name).copy_(value)
"""
_FUNCTION = '''"""A drop-in for the reference's function."""

from . import reference
from .op import forward


def {entry}({signature}):
{others}
    given = {given}
    results = {results}
    return {returned}
'''
_UPDATE = """if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in given):
    before = {before}
    *results, {new} = forward_functional(*before)
    with torch.no_grad():
{copies}
else:
    results = {results}"""


def write_model(task: Task, facts: Facts, *, with_values: bool = False) -> str:
    """`Model`, deriving from the reference's class, or a function of the reference's name.

    `with_values`: tensors no `state_dict` has lie beside it.
    """
    results = "(forward(*given),)" if len(facts.orders) == 1 else "forward(*given)"
    common = {
        "entry": task.entry,
        "signature": facts.signature,
        "given": _given(facts, indent=" " * (4 if facts.is_function else 8)),
        "returned": facts.returned,
    }
    if facts.is_function:
        others = _others(facts, [], f"reference.{task.entry}", "    ")
        return _FUNCTION.format(**common, others=others, results=results).replace("\n\n    given", "\n    given")
    body = f"results = {results}"
    functional = bool(facts.changed) and not facts.changed_inputs and facts.no_gradients is None
    if functional:
        body = _UPDATE.format(
            before=_given(facts, copies=True), new=_new(facts), copies=_copies(facts), results=results
        )
    conditions = [f"self.training is not {task.mode is Mode.TRAIN}"] if facts.mode_matters else []
    text = _CLASS.format(
        **common,
        imports="forward, forward_functional" if functional else "forward",
        others=_others(facts, conditions, "super().forward", " " * 8),
        body=textwrap.indent(body, " " * 8),
        init=_INIT if with_values else "",
    )
    text = text.replace("\n\n        given", "\n        given")
    if with_values:
        text = text.replace("import torch\n", "from pathlib import Path\n\nimport torch\n", 1)
    return text if functional or with_values else text.replace("import torch\n\n", "")


def _others(facts: Facts, conditions: list[str], reference: str, indent: str) -> str:
    """What happens when a call is not one the kernels were made for."""
    for expression, literal in facts.fixed.items():
        conditions.append(f"{expression} is not None" if literal == "None" else f"{expression} != {literal}")
    if not conditions:
        return ""
    lines = f"if {' or '.join(conditions)}:\n    return {reference}({_passed(facts.signature)})"
    return textwrap.indent(lines, indent)


def _given(facts: Facts, *, copies: bool = False, indent: str = "    ") -> str:
    """The operator's arguments; `copies` of the buffers it changes, where backward needs them as they were."""
    copied = facts.changed if copies else ()
    items = [a.expression for a in facts.inputs]
    items += [held.expression + ".clone()" * (held.argument in copied) for held in facts.state]
    text = ", ".join(items)
    if len(text) < 80:
        return f"({text}{',' if len(items) == 1 else ''})"
    return "(\n" + "".join(f"{indent}    {item},\n" for item in items) + f"{indent})"


def _new(facts: Facts) -> str:
    return ", ".join(f"new_{name}" for name in facts.changed)


def _copies(facts: Facts) -> str:
    paths = {held.argument: held.expression for held in facts.state}
    return "\n".join(f"        {paths[name]}.copy_(new_{name})" for name in facts.changed)


def _passed(signature: str) -> str:
    """The parameters of `forward`, passed on."""
    arguments = parse_source(f"def forward({signature}): ...").body[0].args  # type: ignore[attr-defined]
    parts = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    parts += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    parts += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    parts += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(parts)
