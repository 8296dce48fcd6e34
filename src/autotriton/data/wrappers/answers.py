"""A plan as text: the task's file and the answer's file.

Answers vary in what they compute, never in how the same thing is called: who has learnt one manner mixes none up.
"""

from __future__ import annotations

import re

from autotriton.data.pairs.prepare import with_libdevice
from autotriton.data.wrappers.base import Plan, indented, inputs, signature


def task_text(plan: Plan) -> str:
    """The file gathering runs."""
    function = f"def {plan.name}({signature(plan.parameters)}):\n" + indented(
        [f'"""{_one_line(plan.summary)}"""', *_honouring(plan)]
    )
    given = f"def get_inputs():\n    return {inputs(plan.parameters)}"
    body = f"{function}\n\n\n{given}\n"
    imports = ["import math"] * ("math." in body) + ["import random"] * ("random." in given)
    imports += ["", *["import torch"]] if imports else ["import torch"]
    imports += ["import torch.nn.functional as F"] if re.search(r"\bF\.", body) else []
    return "\n".join(imports) + f"\n\n\n{body}"


def answer_text(plan: Plan) -> str:
    """Kernels, then the function."""
    head = f"def {plan.name}({signature(plan.parameters)}):"
    text = f"{plan.kernels.strip()}\n\n\n{head}\n{indented(plan.body)}\n"
    imports = ["import math", ""] if re.search(r"\bmath\.", text) else []
    imports += ["import torch", "import triton", "import triton.language as tl"]
    return with_libdevice("\n".join(imports) + f"\n\n\n{text}")


def _honouring(plan: Plan) -> list[str]:
    """The reference fills `out`, or `input`, where the caller wants that."""
    *before, last = plan.reference
    value = last.removeprefix("return ")
    names = {parameter.name for parameter in plan.parameters}
    if "out" in names:
        return [*before, f"result = {value}", "return result if out is None else out.copy_(result)"]
    if "inplace" in names:
        return [*before, f"result = {value}", "return input.copy_(result) if inplace else result"]
    return [*before, last]


def _one_line(text: str) -> str:
    return " ".join(text.split())
