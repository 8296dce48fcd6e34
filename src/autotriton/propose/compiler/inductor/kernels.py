"""Kernels cut out of Inductor's wrapper: text and trees only, no torch.

Must stay true: what a kernel computes is not changed, except where Triton's interpreter needs another spelling of the
same thing. Dropped are decorators, hints, arguments the body overrides with constants, and values nobody reads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from autotriton.propose.compiler.inductor.helpers import HelperCalls
from autotriton.syntax import parse_expression, parse_literal, parse_source

_KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "row_reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split_scan",
    "mix": "mixed_reduction",
}
_MAX_COMMENT = 24
_NODE = re.compile(
    r"#\s+%(\w+)\b.*? = call_function\[target=torch\.ops\.([\w.]+)\]\(args = \((.*)\), kwargs = \{(.*)\}\)"
)
_NODES = re.compile(r"Topologically Sorted Source Nodes: \[(.*?)\]")
_FUSED = re.compile(r"Original ATen: \[(.*?)\]")
_SCANS = {ast.Add: "cumsum", ast.Mult: "cumprod"}


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mm": "@", "bmm": "@", "lt": "<", "gt": ">", "eq": "=="}
_LONGEST_NAME = 48
_FLASH = "flex_attention"
_VIEWS = ("view", "expand", "clone", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "t", "detach")
_PLAIN = frozenset((*_VIEWS, "arange", "full", "ones", "zeros"))
"""Operators that say little about a kernel that does something else as well."""


@dataclass(frozen=True)
class Comment:
    """What is said above a kernel."""

    lines: list[str]
    sources: tuple[str, ...] = ()
    """Names of the graph's nodes it computes, in order."""

    @property
    def name(self) -> str:
        """`linear_gelu` for the nodes linear, gelu_1; empty where nothing is known."""
        parts = [re.sub(r"(_\d+)+$", "", source).strip("_") for source in self.sources]
        distinct = [part for part in dict.fromkeys(parts) if part.isidentifier()]
        if _FLASH in distinct:
            return _FLASH
        distinct = [part for part in distinct if part not in _PLAIN] or distinct
        while distinct and len("_".join(distinct)) > _LONGEST_NAME:
            distinct.pop(len(distinct) // 2)
        return "_".join(distinct)


@dataclass
class Kernel:
    """One kernel: its functions with the kernel last, and how its call arguments map to parameters."""

    name: str
    """Of the function that launches it."""
    functions: list[ast.FunctionDef]
    passed: list[str]
    """Parameters in the order Inductor passes them, those it sets itself left out."""
    dropped: frozenset[str]
    """Parameters the body overrides; they are no longer there, but the grid may need their values."""
    comment: list[str]
    constants: dict[str, object]
    """Names its body set to literals, those that nobody reads included."""

    @property
    def main(self) -> ast.FunctionDef:
        return self.functions[-1]


def kernel_sources(wrapper: str) -> dict[str, str]:
    """`name = async_compile.triton('name', 'source')` of the wrapper, as name -> source."""
    found = {}
    for node in parse_source(wrapper).body:
        call = node.value if isinstance(node, ast.Assign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "async_compile.triton":
            name, source = (parse_literal(argument) for argument in call.args[:2])
            found[str(name)] = str(source)
    return found


def cut(name: str, source: str, config: Iterable[str], helpers: HelperCalls, comment: Comment) -> Kernel:
    functions = [node for node in parse_source(source).body if isinstance(node, ast.FunctionDef)]
    main = next((f for f in functions if any("triton_heuristics" in ast.unparse(d) for d in f.decorator_list)), None)
    main = main or functions[-1]
    functions = [*(function for function in functions if function is not main), main]
    for function in functions:
        function.decorator_list = [d for d in function.decorator_list if ast.unparse(d) == "triton.jit"]
    _known_scans(functions)
    known = constants(main)
    functions = [_Spelling(known).visit(function) for function in functions]
    parameters = [argument.arg for argument in main.args.args]
    dropped = frozenset(_overridden(main))
    main.args.args = [argument for argument in main.args.args if argument.arg not in dropped]
    for function in functions:
        drop_unread(function)
    kept = [helpers.visit(function) for function in _reached(functions)]
    fixed = set(config)
    passed = [parameter for parameter in parameters if parameter not in fixed]
    return Kernel(comment.name or readable(name), kept, passed, dropped, comment.lines, known)


def _reached(functions: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """The kernel, last, and the functions it calls, directly or not."""
    known = {function.name: function for function in functions}
    reached, todo = set[str](), [functions[-1].name]
    while todo:
        name = todo.pop()
        if name in known and name not in reached:
            reached.add(name)
            todo += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]
    return [function for function in functions if function.name in reached]


def name_functions(kernel: Kernel, name: str) -> None:
    """The launching function gets the name itself, the kernel `NAME_kernel`, what the kernel calls `NAME_PART`."""
    kernel.name = name
    for inner in kernel.functions[:-1]:
        new = f"{name}_{inner.name.removeprefix('_triton_helper_fn').strip('_')}"
        _rename(kernel.functions, inner.name, new)
        inner.name = new
    kernel.main.name = f"{name}_kernel"


def readable(name: str) -> str:
    """`triton_poi_fused_add_relu_0` is `pointwise_add_relu_0`."""
    match = re.fullmatch(r"triton_(\w{3})_fused_?(.*)", name)
    text = f"{_KINDS.get(match[1], match[1])}_{match[2]}" if match else name
    text = text.removeprefix("template_")
    return re.sub(r"_+", "_", text).strip("_")


def comments(wrapper: str, names: dict[str, str]) -> dict[str, Comment]:
    """What each kernel fuses, from the comment block Inductor writes above it, with the arguments' real names."""
    found, block = {}, list[str]()
    for line in wrapper.splitlines():
        if line.startswith("#"):
            block.append(line)
            continue
        if match := re.match(r"(\w+) = async_compile\.triton\(", line):
            text = "\n".join(block)
            lines = [re.sub(r"\barg\d+_1\b", lambda m: names.get(m[0], m[0]), x) for x in _comment(text)]
            nodes = _NODES.search(text)
            sources = tuple(name.strip() for name in nodes[1].split(",")) if nodes and nodes[1].strip() else ()
            found[match[1]] = Comment(lines, sources)
        block = []
    return found


def _comment(text: str) -> list[str]:
    fused = _FUSED.search(text)
    operators = [name.removeprefix("aten.") for name in fused[1].split(", ")] if fused and fused[1] else []
    lines = [f"{'Fuses' if len(operators) > 1 else 'Computes'} {', '.join(operators)}:"] if operators else []
    for match in _NODE.finditer(text):
        operator = match[2].removeprefix("aten.").rpartition(".")[0] or match[2]
        extra = ", ".join(part.replace(": ", "=") for part in match[4].split(", ") if part)
        arguments = ", ".join(filter(None, (match[3].rstrip(", "), extra))).replace("%", "")
        lines.append(f"    {match[1]} = {_formula(operator, arguments)}")
    if len(lines) > _MAX_COMMENT:
        lines = [*lines[:_MAX_COMMENT], f"    ... and {len(lines) - _MAX_COMMENT} more"]
    return lines


def _formula(operator: str, arguments: str) -> str:
    """`a + b` for what has a sign, else the call."""
    parts = [part.strip() for part in arguments.split(",")]
    if operator in _SIGNS and len(parts) == 2 and "=" not in arguments and "[" not in arguments:
        return f"{parts[0]} {_SIGNS[operator]} {parts[1]}"
    return f"{operator}({arguments})"


def rename_parameters(kernel: Kernel, names: dict[str, str]) -> None:
    """Pointers get the names of what they point to."""
    taken = {node.id for node in ast.walk(kernel.main) if isinstance(node, ast.Name)}
    taken |= {argument.arg for argument in kernel.main.args.args}
    for old, new in names.items():
        while new in taken:
            new += "_"
        taken.add(new)
        _rename([kernel.main], old, new)
        for argument in kernel.main.args.args:
            argument.arg = new if argument.arg == old else argument.arg
        kernel.passed = [new if parameter == old else parameter for parameter in kernel.passed]


def _rename(functions: Iterable[ast.FunctionDef], old: str, new: str) -> None:
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == old:
                node.id = new


class _Spelling(ast.NodeTransformer):
    """The same kernel for a reader, and for Triton's interpreter."""

    def __init__(self, constants: dict[str, object]) -> None:
        self.constants = constants

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "eviction_policy"]
        for keyword in node.keywords:
            if keyword.arg == "allow_tf32" and isinstance(keyword.value, ast.Name):
                keyword.arg = "input_precision"
                keyword.value = ast.Constant("tf32" if self.constants.get(keyword.value.id) else "ieee")
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        # A mask without dimensions, which the interpreter cannot broadcast; the grid is exact, so it is always true.
        if isinstance(node.op, ast.BitAnd) and ast.unparse(node.right) == "idx_q < BATCH":
            return node.left
        return node


def constants(function: ast.FunctionDef) -> dict[str, object]:
    """Names the body sets to literals at its top level."""
    found: dict[str, object] = {}
    for node in function.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                found[target.id] = node.value.value
    return found


def _overridden(function: ast.FunctionDef) -> set[str]:
    return {argument.arg for argument in function.args.args} & set(constants(function))


def _known_scans(functions: list[ast.FunctionDef]) -> None:
    """`associative_scan` with a sum or product has its own, much quicker, name."""
    scans = {function.name: scan for function in functions[:-1] if (scan := _scan_name(function))}
    for node in ast.walk(functions[-1]):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.associative_scan"):
            continue
        values, axis, combine = node.args[:3]
        scan = scans.get(combine.id) if isinstance(combine, ast.Name) else None
        if (
            scan
            and len(node.args) == 3
            and not node.keywords
            and isinstance(values, ast.Tuple)
            and len(values.elts) == 1
        ):
            call = ast.Call(parse_expression(f"tl.{scan}"), [values.elts[0], axis], [])
            node.func, node.args = ast.Name("tuple", ast.Load()), [call]
    _Untuple().visit(functions[-1])


class _Untuple(ast.NodeTransformer):
    """`y, = tuple(scan)` is `y = scan`."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        call, target = node.value, node.targets[0]
        marked = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "tuple"
        if marked and isinstance(call, ast.Call) and isinstance(target, ast.Tuple) and len(target.elts) == 1:
            return ast.copy_location(ast.Assign([target.elts[0]], call.args[0]), node)
        return node


def _scan_name(function: ast.FunctionDef) -> str | None:
    """cumsum for `tmp = a + b; return tmp`."""
    if len(function.args.args) != 2 or len(function.body) != 2 or not isinstance(function.body[0], ast.Assign):
        return None
    value = function.body[0].value
    if (
        not isinstance(value, ast.BinOp)
        or not isinstance(value.left, ast.Name)
        or not isinstance(value.right, ast.Name)
    ):
        return None
    both = {value.left.id, value.right.id} == {argument.arg for argument in function.args.args}
    return _SCANS.get(type(value.op)) if both else None


def drop_unread(function: ast.FunctionDef) -> None:
    """Remove assignments of plain values to names nobody reads, until none is left."""
    while True:
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        before = ast.dump(function)
        _Unread(read).visit(function)
        if ast.dump(function) == before:
            return


class _Unread(ast.NodeTransformer):
    def __init__(self, read: set[str]) -> None:
        self.read = read

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if self._unread(node.targets[0], node.value) else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return None if node.value is not None and self._unread(node.target, node.value) else node

    def _unread(self, target: ast.expr, value: ast.expr) -> bool:
        pure = not any(isinstance(part, ast.Call) and not _is_pure(part) for part in ast.walk(value))
        return isinstance(target, ast.Name) and target.id not in self.read and pure


def _is_pure(call: ast.Call) -> bool:
    return ast.unparse(call.func) in {"tl.full", "tl.arange", "tl.zeros", "tl.broadcast_to", "tl.program_id"}
