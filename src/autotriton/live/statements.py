"""An exported graph as the statements of `forward`: plain torch calls in the order of the graph.

Must stay true: what is printed computes what the graph computes. Operators are spelled as people write them where
torch has a function or method of the same schema, else by their full name in `torch.ops`; which of the two spellings
is used changes nothing else.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node

from autotriton.errors import TaskError

_SYMBOLS: dict[Any, str] = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.floordiv: "{} // {}",
    operator.truediv: "{} / {}",
    operator.mod: "{} % {}",
    operator.pow: "{} ** {}",
    operator.neg: "-{}",
    math.floor: "int({} // 1)",
    math.ceil: "-int(-{} // 1)",
    math.trunc: "int({})",
    torch.sym_float: "float({})",
    torch.sym_int: "int({})",
    torch.sym_max: "max({}, {})",
    torch.sym_min: "min({}, {})",
}
_SAME = ("aten::detach", "aten::detach_", "aten::alias")
"""Without autograd these are their argument."""
_DROPPED = ("aten::_assert", "aten::sym_constrain", "aten::_functional_assert")
_DROPOUTS = ("aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::alpha_dropout")
_COMPARISONS = (operator.ge, operator.gt, operator.le, operator.lt, operator.eq, operator.ne)


def print_graph(module: GraphModule, names: Mapping[str, str], device: str, *, raw: bool = False) -> list[str]:
    """Statements of `forward`, a return last. `names` has an expression for every placeholder."""
    printer = _Printer(device, set(names.values()), raw)
    results = printer.graph(module, [names[node.name] for node in module.graph.nodes if node.op == "placeholder"])
    tensors = [text for text in results if text != "None"]
    return [*printer.lines, f"return {', '.join(tensors)}"]


class _Printer:
    def __init__(self, device: str, taken: set[str], raw: bool) -> None:
        self.device, self.raw = device, raw
        self.lines: list[str] = []
        self.taken = {*taken, "self", "torch", "nn", "F", "max", "min", "int", "float"}
        self.where = ""
        self.indent = ""

    def graph(self, module: GraphModule, arguments: list[str]) -> list[str]:
        """Prints the graph's nodes; the expressions it returns."""
        values: dict[Node, Any] = {}
        given = iter(arguments)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = getattr(module, str(node.target))
            elif node.op == "output":
                return [self.text(item, values) for item in _sequence(node.args[0])]
            else:
                self.node(node, values)
        return []

    def node(self, node: Node, values: dict[Node, Any]) -> None:
        target = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            values[node] = self.region(node, values)
        elif target is operator.getitem and isinstance(values[node.args[0]], list):  # type: ignore[index]
            values[node] = values[node.args[0]][node.args[1]]  # type: ignore[index]
        elif isinstance(target, torch._ops.OpOverload):
            self.operator(node, target, values)
        elif not (target in _COMPARISONS and not node.users):
            self.assign(node, self.symbolic(node, values), values)

    def operator(self, node: Node, target: torch._ops.OpOverload, values: dict[Node, Any]) -> None:
        name = target._schema.name
        if target.namespace != "aten":
            raise TaskError(
                f"operator {target} belongs to a package kernels cannot be made for", hint="optimize a part without it"
            )
        if torch.Tag.nondeterministic_seeded in target.tags and not _is_certain(node, target):
            raise TaskError(
                f"forward draws random numbers ({target}), so no kernel can be verified against it",
                hint="use .eval(), or take dropout and sampling out",
            )
        if name in _SAME or (name in _DROPOUTS and _is_certain(node, target)):
            values[node] = self.text(node.args[0], values)
        elif not name.startswith(_DROPPED):
            self.comment(node)
            self.assign(node, self.call(node, target, values), values)

    def call(self, node: Node, target: torch._ops.OpOverload, values: dict[Node, Any]) -> str:
        args = [self.text(argument, values) for argument in node.args]
        kept = {key: value for key, value in node.kwargs.items() if not (key == "pin_memory" and not value)}
        named = [f"{key}={self.text(value, values)}" for key, value in kept.items()]
        special = _SPECIAL.get(target._schema.name)
        if special is not None and not self.raw and not named:
            return special(*args)
        spelled = None if self.raw else _spelling(target)
        if spelled == "method" and isinstance(node.args[0], Node):
            return f"{args[0]}.{_base(target)}({', '.join([*args[1:], *named])})"
        return f"{spelled if spelled not in (None, 'method') else f'torch.ops.{target}'}({', '.join([*args, *named])})"

    def symbolic(self, node: Node, values: dict[Node, Any]) -> str:
        args = [self.text(argument, values) for argument in node.args]
        if node.target is operator.getitem:
            return f"{args[0]}[{args[1]}]"
        if node.target not in _SYMBOLS:
            raise TaskError(f"forward computes sizes with {node.target}, which cannot be written down")
        return "(" + _SYMBOLS[node.target].format(*args) + ")"

    def region(self, node: Node, values: dict[Node, Any]) -> list[str]:
        """A part of the graph under another grad mode, which means nothing here, or under autocast."""
        name = str(node.target)
        if name == "wrap_with_set_grad_enabled":
            _, body, *given = node.args
            return self.graph(values[body], [self.text(item, values) for item in given])  # type: ignore[index]
        if name == "wrap_with_autocast":
            kind, dtype, enabled, _, body, *given = node.args
            self.line(f"with torch.autocast({kind!r}, dtype={dtype}, enabled={enabled}):")
            self.indent, before = self.indent + "    ", len(self.lines)
            results = self.graph(values[body], [self.text(item, values) for item in given])  # type: ignore[index]
            if len(self.lines) == before:
                self.line("pass")
            self.indent = self.indent[:-4]
            return results
        raise TaskError(
            f"forward uses torch's higher-order operator {name}, which cannot become a kernel",
            hint="optimize a part without it",
        )

    def assign(self, node: Node, expression: str, values: dict[Node, Any]) -> None:
        if not node.users:
            self.line(expression)
            return
        name = self.name(node, values)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        values[node] = name
        self.line(f"{name} = {expression}")

    def name(self, node: Node, values: dict[Node, Any]) -> str:
        """As in the graph; a size is called after what it is the size of."""
        if str(node.target) == "aten.sym_size.int" and str(values[node.args[0]]).isidentifier():  # type: ignore[index]
            return f"{values[node.args[0]]}_size_{node.args[1]}"  # type: ignore[index]
        return node.name

    def comment(self, node: Node) -> None:
        """The submodule a run of statements came from."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = str(stack[-1][0]).partition(".")[2] if stack else ""
        if path != self.where:
            self.where = path
            if path:
                self.line(f"# {path}")

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def text(self, value: Any, values: dict[Node, Any]) -> str:
        if isinstance(value, Node):
            return str(values[value])
        if isinstance(value, torch.device):
            return self.device
        if isinstance(value, list | tuple):
            inner = ", ".join(self.text(item, values) for item in value)
            return f"[{inner}]"
        if isinstance(value, float) and not math.isfinite(value):
            return f"float({str(value)!r})"
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return str(value)
        return repr(value)


def _sequence(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _is_certain(node: Node, target: torch._ops.OpOverload) -> bool:
    """An operator that may draw random numbers, told not to."""
    given = {
        argument.name: argument.default_value for argument in target._schema.arguments if argument.has_default_value()
    }
    given |= dict(zip((argument.name for argument in target._schema.arguments), node.args, strict=False))
    given |= node.kwargs
    off = [given[name] == 0 for name in ("p", "dropout", "dropout_p") if name in given]
    off += [given[name] is False for name in ("train", "training") if name in given]
    return any(off)


def _base(target: torch._ops.OpOverload) -> str:
    return target._schema.name.partition("::")[2]


def _spelling(target: torch._ops.OpOverload) -> str | None:
    """`torch.relu`, `F.linear`, or `method`; None where torch has no such spelling made from the operator's schema."""
    base = _base(target)
    if base.startswith("_"):
        return None
    for prefix, namespace in (("torch", torch), ("F", F)):
        if isinstance(getattr(namespace, base, None), BuiltinFunctionType):
            return f"{prefix}.{base}"
    arguments = target._schema.arguments
    is_method = arguments and arguments[0].name == "self" and hasattr(torch._C.TensorBase, base)
    return "method" if is_method else None


def _slice(x: str, axis: str = "0", start: str = "None", end: str = "None", step: str = "1") -> str:
    if not axis.isdigit():
        return f"torch.ops.aten.slice.Tensor({', '.join((x, axis, start, end, step))})"
    begin = "" if start in ("None", "0") else start
    stop = "" if end in ("None", str(2**63 - 1)) else end
    stride = "" if step == "1" else f":{step}"
    return f"{x}[{':, ' * int(axis)}{begin}:{stop}{stride}]"


_SPECIAL: dict[str, Callable[..., str]] = {
    "aten::sym_size": lambda x, axis: f"{x}.size({axis})",
    "aten::sym_numel": lambda x: f"{x}.numel()",
    "aten::sym_stride": lambda x, axis: f"{x}.stride({axis})",
    "aten::slice": _slice,
    "aten::lift_fresh_copy": lambda x: f"{x}.clone()",
}
