"""The wrapper's `call` becomes the body of `forward`: plain allocation, views and launches. No torch is imported here.

Must stay true: nothing but `torch.empty_strided`, `torch.as_strided` and kernel launches is left. Any other call is
refused by its name, so that no computation silently stays with torch.
"""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass, field

from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.kernels import Comment, Kernel
from autotriton.propose.compiler.inductor.launchers import Launchers
from autotriton.propose.compiler.inductor.record import Argument, Capture
from autotriton.syntax import parse_literal, parse_source

_LIBRARIES = ("torch", "triton", "tl", "nn", "libdevice", "math", "F")
_RESERVED = frozenset((*_LIBRARIES, "self", "device", "type", "super", "as_expected", "tiles", "TILES", "ModelNew"))
_IGNORED = ("args.clear", "assert_size_stride", "assert_alignment", "torch.cuda.")
_ARGUMENT = re.compile(r"arg\d+_\d+")
_NAMESPACES = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")


@dataclass
class Body:
    """What `forward` does, one source statement per entry."""

    names: dict[str, str]
    """The wrapper's argument names -> names a reader knows."""
    statements: list[str] = field(default_factory=list)
    returned: str = ""
    read: set[str] = field(default_factory=set)
    """Arguments that are used at all."""
    launchers: Launchers = field(default_factory=lambda: Launchers(set()))


def rewrite(capture: Capture, kernels: dict[str, Kernel], notes: dict[str, Comment], taken: set[str]) -> Body:
    """`taken`: names the rest of the file uses."""
    call = _call(parse_source(capture.wrapper))
    statements = list(_flat(call.body))
    names = _names(statements, capture.arguments)
    functions = {note.name for note in notes.values()}
    values = _value_names(statements, notes, {*taken, *names.values(), *functions, *_RESERVED})
    body = Body({**names, **values}, launchers=Launchers({*taken, *names.values(), *values.values(), *_RESERVED}))
    rewriter = _Rewriter(capture, kernels, body, _counts(statements, kernels))
    for statement in statements:
        rewriter.statement(statement)
    body.read |= {node.id for text in [*body.statements, body.returned] for node in _loads(text)}
    body.statements = _merged(body.statements)
    return body


def local_names(arguments: tuple[Argument, ...]) -> dict[str, str]:
    """A local variable for every argument: `linear.weight` is `linear_weight`."""
    taken, found = set(_RESERVED), {}
    for argument in sorted(arguments, key=lambda argument: argument.origin):
        name = re.sub(r"\W+", "_", argument.name).strip("_") or "value"
        name = f"p{name}" if name[0].isdigit() else name
        while name in taken or keyword.iskeyword(name) or re.fullmatch(r"(buf|arg|_out)\d+\w*", name):
            name += "_"
        taken.add(name)
        found[argument.name] = name
    return found


class _Rewriter:
    def __init__(self, capture: Capture, kernels: dict[str, Kernel], body: Body, counts: dict[str, int]) -> None:
        self.capture, self.kernels, self.body, self.counts = capture, kernels, body, counts

    def statement(self, node: ast.stmt) -> None:
        text = ast.unparse(node)
        if text.endswith("= args") or text.startswith(_IGNORED) or isinstance(node, ast.Assert):
            return
        if any(word in text for word in ("get_raw_stream", "copy_if_misaligned")):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._launch(node.value)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            self._return([self.expression(element) for element in node.value.elts])
        elif isinstance(node, ast.Delete):
            names = [t.id for t in node.targets if isinstance(t, ast.Name) and not _ARGUMENT.fullmatch(t.id)]
            self.body.statements += [f"del {self.body.names.get(name, name)}" for name in names]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            self.body.statements.append(f"{self.body.names.get(name, name)} = {self.expression(node.value)}")
        else:
            raise ProposerError(f"Inductor's wrapper has a statement that is not understood: {text[:80]!r}")

    def expression(self, node: ast.expr) -> str:
        """Allocations and views in public torch; every other call is refused."""
        if isinstance(node, ast.Name):
            return self.body.names.get(node.id, node.id)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Constant):
            return repr(node.value)
        raise ProposerError(f"Inductor's wrapper has an expression that is not understood: {ast.unparse(node)[:80]!r}")

    def _call(self, node: ast.Call) -> str:
        function = ast.unparse(node.func)
        if function.startswith("empty_strided_") and len(node.args) == 3:
            size, stride, dtype = map(ast.unparse, node.args)
            return f"torch.empty_strided({size}, {stride}, dtype={dtype}, device=device)"
        if function == "reinterpret_tensor":
            base, size, stride = self.expression(node.args[0]), ast.unparse(node.args[1]), ast.unparse(node.args[2])
            offset = parse_literal(node.args[3]) if len(node.args) > 3 else 0
            start = f", {base}.storage_offset() + {offset}" if offset else ""
            return f"torch.as_strided({base}, {size}, {stride}{start})"
        raise _left_over(function)

    def _launch(self, node: ast.Call) -> None:
        name = node.func.value.id if _is_run(node) else ""  # type: ignore[attr-defined]
        if name not in self.kernels:
            raise _left_over(ast.unparse(node.func))
        kernel, launch = self.kernels[name], self.capture.launches[name]
        extra = len(launch.extra_arguments)
        given = node.args[: len(node.args) - extra]
        dropped = kernel.dropped
        values = dict(zip(kernel.passed, given, strict=True))
        sizes = dict(zip(launch.extra_arguments, node.args[len(given) :], strict=True))
        written = {name: self.expression(value) for name, value in {**values, **sizes}.items()}
        called = self.body.launchers.launch(name, kernel, launch, written, once=self.counts[name] == 1)
        passed = [value for parameter, value in written.items() if parameter in values and parameter not in dropped]
        self.body.statements.append(f"{called}({', '.join(passed)})")

    def _return(self, outputs: list[str]) -> None:
        locals_ = local_names(self.capture.arguments)
        aliases = {out: view.format(locals_[name]) for out, (name, view) in self.capture.aliases.items()}

        def value(match: re.Match[str]) -> str:
            return aliases.get(match[0]) or outputs[int(match[1])]

        self.body.returned = re.sub(r"\b_out(\d+)\b", value, self.capture.output)


def _call(tree: ast.Module) -> ast.FunctionDef:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"]
    if not found:
        raise ProposerError("Inductor's wrapper has no `call`; this torch version is not supported")
    return found[0]


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without the device guard around them."""
    return [inner for node in body for inner in (_flat(node.body) if isinstance(node, ast.With) else [node])]


def _names(statements: list[ast.stmt], arguments: tuple[Argument, ...]) -> dict[str, str]:
    locals_ = [local_names(arguments)[argument.name] for argument in arguments]
    for node in statements:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "args":
            target = node.targets[0]
            targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            names = [part.id for part in targets if isinstance(part, ast.Name)]
            if len(names) != len(locals_):
                raise ProposerError(f"Inductor's wrapper takes {len(names)} arguments, {len(locals_)} were traced")
            return dict(zip(names, locals_, strict=True))
    return {}


def _value_names(statements: list[ast.stmt], notes: dict[str, Comment], taken: set[str]) -> dict[str, str]:
    """A buffer that a launch is the first to use has the name of the last thing computed there: `buf1` is `gelu`."""
    fresh, found = list[str](), dict[str, str]()
    for node in statements:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_allocation(node.value):
            fresh.append(node.targets[0].id)
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_run(node.value)):
            continue
        used = [part.id for argument in node.value.args for part in ast.walk(argument) if isinstance(part, ast.Name)]
        made = [name for name in fresh if name in used]
        fresh = [name for name in fresh if name not in used]
        note = notes.get(node.value.func.value.id)  # type: ignore[attr-defined]
        if len(made) == 1 and note is not None and note.sources:
            found[made[0]] = _free(note.sources[-1], taken)
    return found


def _free(wanted: str, taken: set[str]) -> str:
    name = wanted if wanted.isidentifier() and not keyword.iskeyword(wanted) else f"value_{wanted}"
    name = re.sub(r"\W", "_", name)
    name = f"{name}_out" if name in taken else name
    while name in taken or re.fullmatch(r"(buf|arg|_out)\d+\w*", name):
        name += "_"
    taken.add(name)
    return name


def _is_allocation(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("empty_strided_")


def _counts(statements: list[ast.stmt], kernels: dict[str, Kernel]) -> dict[str, int]:
    counts = dict.fromkeys(kernels, 0)
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_run(node.value):
            counts[node.value.func.value.id] += 1  # type: ignore[attr-defined]
    return counts


def _is_run(node: ast.Call) -> bool:
    function = node.func
    return isinstance(function, ast.Attribute) and function.attr == "run" and isinstance(function.value, ast.Name)


def _left_over(function: str) -> ProposerError:
    operator = function
    for namespace in _NAMESPACES:
        operator = operator.removeprefix(namespace)
    return ProposerError(
        f"the inductor engine has no Triton kernel for {operator}: it would stay a call to torch",
        hint="this task needs a hand-written kernel or another proposer",
    )


def _loads(text: str) -> list[ast.Name]:
    return [n for n in ast.walk(parse_source(text)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]


def _merged(statements: list[str]) -> list[str]:
    """Neighbouring `del`s in one line."""
    merged: list[str] = []
    for text in statements:
        if text.startswith("del ") and merged and merged[-1].startswith("del "):
            merged[-1] += ", " + text.removeprefix("del ")
        else:
            merged.append(text)
    while merged and merged[-1].startswith("del "):
        merged.pop()
    return merged
