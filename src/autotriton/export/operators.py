"""The text of a package's `op.py`: the operators, their fake kernels and their gradients. No torch is imported here."""

from __future__ import annotations

import json
import textwrap

from autotriton.export.facts import Facts
from autotriton.types import Mode, Task

_HEAD = '''"""{title} as PyTorch operators, so that its kernels work under torch.compile and in CUDA graphs.

`torch.ops.{name}.forward` takes the inputs, then every parameter and buffer; weights therefore stay the caller's.
{more}
"""

import torch
from torch import Tensor

from . import kernels, reference
from .binding import {imports}

ORDERS = {orders}
"""For each result its axes from the fastest to the slowest in memory."""

{kernel}
{reference}
'''
_FORWARD = '''

@torch.library.custom_op("{name}::forward", mutates_args={mutates})
def forward({signature}) -> {returns}:
    """{doc}"""
    state = {state}
    model = KERNEL if runs_kernels({first}) else REFERENCE
    with torch.cuda.device_of({first}):  # kernels are launched on the current device
        results = fresh(model({call}), ORDERS, {given})
    return {results}


@forward.register_fake
def _({names}):{copies}
    state = {copied_state}
    with torch.no_grad():
        results = promised(REFERENCE({call}), ORDERS)
    return {results}
'''
_FUNCTIONAL = '''

@torch.library.custom_op("{name}::forward_functional", mutates_args=())
def forward_functional({signature}) -> {returns}:
    """As `forward`, but returns the new values of buffers after the results instead of changing them."""
    updated = {updated}
    {unpacked} = updated
    results = {forward}
    return ({parts}*updated)


@forward_functional.register_fake
def _({names}):
    results = {forward}
    return ({parts}*map(torch.empty_like, {updated_names}))
'''
_GRADIENTS = '''

def _run({names}):
    state = {copied_state}
    return REFERENCE({call})


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))
    ctx.others = tuple(None if isinstance(value, Tensor) else value for value in inputs)


def _backward(ctx, *grads):
    """Gradients by running the reference once more."""
    tensors = iter(ctx.saved_tensors)
    inputs = [next(tensors) if value is None else value for value in ctx.others]
    return gradients(_run, inputs, ctx.needs_input_grad, grads[:{count}])


{operator}.register_autograd(_backward, setup_context=_keep)
'''
_NO_GRADIENTS = """
def _backward(ctx, *grads):
    raise RuntimeError("{name}::forward is for inference: {why}")


forward.register_autograd(_backward)
"""


def write_operators(task: Task, facts: Facts, name: str) -> str:
    """The module that registers `name::forward` and, where buffers change, `name::forward_functional`."""
    pieces = _Pieces(task, facts, name)
    text = _HEAD.format(**pieces.head()) + _FORWARD.format(**pieces.forward())
    if facts.changed and not facts.changed_inputs:
        text += _FUNCTIONAL.format(**pieces.functional())
    if facts.no_gradients is not None and not facts.changed and not facts.changed_inputs:
        why = facts.no_gradients.replace("\\", "").replace('"', "'")
        text += _NO_GRADIENTS.format(name=name, why=why)
    elif not facts.changed_inputs and facts.no_gradients is None:
        text += _GRADIENTS.format(**pieces.gradients())
    return text


class _Pieces:
    def __init__(self, task: Task, facts: Facts, name: str) -> None:
        self.task, self.facts, self.name = task, facts, name
        self.state = [held.argument for held in facts.state]
        self.names = [argument.name for argument in facts.inputs] + self.state
        self.count = len(facts.orders)

    def head(self) -> dict[str, str]:
        facts = self.facts
        uses = {"fresh", "promised", "runs_kernels"} | (
            {"gradients"} if facts.no_gradients is None and not facts.changed_inputs else set()
        )
        uses |= {
            "Function" if facts.kernel_is_function else "Skeleton",
            "Function" if facts.is_function else "Skeleton",
        }
        more = "Gradients come from running the reference again." if "gradients" in uses else "It is for inference."
        return {
            "title": self.task.id,
            "name": self.name,
            "more": more,
            "imports": ", ".join(sorted(uses)),
            "orders": repr(facts.orders),
            "kernel": self._model("KERNEL", f"kernels.{facts.kernel_entry}", facts.kernel_is_function, "kernel"),
            "reference": self._model("REFERENCE", f"reference.{self.task.entry}", facts.is_function, "names"),
        }

    def _model(self, variable: str, entry: str, is_function: bool, names: str) -> str:
        if is_function:
            return f"{variable} = Function({entry})"
        init = "reference.get_init_inputs" if "def get_init_inputs" in self.task.source else "list"
        lines = "".join(f"        {_texts(getattr(held, names))},\n" for held in self.facts.state)
        listing = f"[\n{lines}    ]" if lines else "[]"
        return (
            f"{variable} = Skeleton(\n    {entry},\n    {init},\n    {listing},\n    {self.task.mode is Mode.TRAIN},\n)"
        )

    def forward(self) -> dict[str, str]:
        facts = self.facts
        return {
            "name": self.name,
            "mutates": _texts((*facts.changed, *facts.changed_inputs)),
            "signature": self._signature(),
            "returns": self._returns(self.count),
            "doc": "The results, contiguous in the order of axes the reference has.",
            "state": _tuple(self.state),
            "copied_state": self._copied_state(),
            "call": ", ".join(filter(None, ("state", facts.call))),
            "first": next(a.name for a in facts.inputs if a.type == "Tensor"),
            "copies": "".join(f"\n    {name} = {name}.clone()" for name in facts.changed_inputs),
            "given": _tuple([*(a.name for a in facts.inputs if a.type == "Tensor"), "*state"]),
            "results": "results[0]" if self.count == 1 else "tuple(results)",
            "names": ", ".join(self.names),
        }

    def functional(self) -> dict[str, str]:
        changed = self.facts.changed
        return {
            "name": self.name,
            "signature": self._signature(),
            "returns": self._returns(self.count + len(changed)),
            "updated": "[" + ", ".join(f"{name}.clone()" for name in changed) + "]",
            "unpacked": ", ".join(changed) + ("," if len(changed) == 1 else ""),
            "forward": f"forward({', '.join(self.names)})",
            "parts": "results, " if self.count == 1 else "*results, ",
            "names": ", ".join(self.names),
            "updated_names": _tuple(list(changed)),
        }

    def gradients(self) -> dict[str, str]:
        return {
            "names": ", ".join(self.names),
            "copied_state": self._copied_state(),
            "call": ", ".join(filter(None, ("state", self.facts.call))),
            "count": str(self.count),
            "operator": "forward_functional" if self.facts.changed else "forward",
        }

    def _signature(self) -> str:
        typed = [f"{a.name}: {a.type}" for a in self.facts.inputs] + [f"{name}: Tensor" for name in self.state]
        text = ", ".join(typed)
        return text if len(text) < 90 else "\n" + textwrap.indent(",\n".join(typed), "    ") + ",\n"

    def _returns(self, count: int) -> str:
        return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"

    def _copied_state(self) -> str:
        """The state, with copies of what the reference would change."""
        return _tuple([f"{n}.clone()" if n in self.facts.changed else n for n in self.state])


def _texts(items: tuple[str, ...]) -> str:
    """A tuple of strings as source, over several lines where it is long."""
    texts = [json.dumps(item) for item in items]
    short = _tuple(texts)
    return short if len(short) < 50 else "(\n    " + ",\n    ".join(texts) + ",\n)"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
