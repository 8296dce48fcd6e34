"""A plan as text: the task's file and the answer's file. Names, tiles' names and layout vary from answer to answer."""

from __future__ import annotations

import re
from random import Random

from autotriton.data.pairs.rename import renamed
from autotriton.data.wrappers.base import Plan, indented, inputs, signature

_LIBDEVICE = "from triton.language.extra import libdevice"
_SYNONYMS = {
    "pid": ("block", "program", "block_id"),
    "offsets": ("offs", "idx", "index"),
    "mask": ("inside", "valid", "in_bounds"),
    "n_elements": ("n", "numel", "total", "size"),
    "x_ptr": ("input_ptr", "in_ptr", "src_ptr"),
    "out_ptr": ("output_ptr", "y_ptr", "dst_ptr", "result_ptr"),
    "BLOCK": ("BLOCK_SIZE", "BLOCK_N", "TILE"),
    "y": ("value", "result", "r", "v"),
    "row": ("row_id", "r", "row_index"),
    "cols": ("col", "offs_n", "columns"),
    "n_cols": ("n", "row_length", "num_cols"),
    "n_rows": ("num_rows", "rows_total"),
    "acc": ("accumulator", "total", "partial"),
    "ks": ("offs_k", "k"),
    "start": ("begin", "first", "k0"),
    "base": ("row_start", "origin"),
    "inner": ("stride", "inner_size"),
}
_KERNEL_NAMES = ("{0}_kernel", "{0}_kernel", "_{0}_kernel", "{0}_fwd_kernel", "_{0}_fwd", "triton_{0}_kernel")


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


def answer_text(plan: Plan, draw: Random) -> str:
    """Kernels, then the function."""
    head = f"def {plan.name}({signature(plan.parameters)}):"
    text = f"{plan.kernels.strip()}\n\n\n{head}\n{indented(plan.body)}\n"
    imports = ["import math", ""] if re.search(r"\bmath\.", text) else []
    imports += ["import torch", "import triton", "import triton.language as tl"]
    imports += [_LIBDEVICE] if "libdevice." in text else []
    return _restyled("\n".join(imports) + f"\n\n\n{text}", plan, draw)


def _restyled(code: str, plan: Plan, draw: Random) -> str:
    fixed = {parameter.name for parameter in plan.parameters} | {plan.name}
    names = {old: draw.choice(new) for old, new in _SYNONYMS.items() if old not in fixed and draw.random() < 0.35}
    names = {old: new for old, new in names.items() if new not in fixed}
    manner = draw.choice(_KERNEL_NAMES)
    for kernel in re.findall(r"^@triton.jit\ndef (\w+)_kernel\(", code, re.MULTILINE):
        names[f"{kernel}_kernel"] = manner.format(kernel)
    return renamed(code, _apart(names))


def _apart(names: dict[str, str]) -> dict[str, str]:
    """No two names become one."""
    found: dict[str, str] = {}
    for old, new in names.items():
        if new not in found.values():
            found[old] = new
    return found


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
