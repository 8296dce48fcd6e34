"""What an emitted program is made of, read off its syntax tree: the ground every sentence about it stands on."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from autotriton.data.pairs.prepare import formula_of
from autotriton.syntax import parse_literal, parse_source

_LANGUAGE = frozenset(
    ["abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt"]
)
"""What `triton.language` has under the same name."""
_ALLOCATIONS = ("empty", "empty_like", "zeros", "zeros_like", "full")
_REDUCTIONS = {"sum": "sum", "max": "maximum", "min": "minimum", "argmax": "argmax", "argmin": "argmin",
               "reduce": "reduction", "xor_sum": "xor"}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """One `@triton.jit` function that is launched."""

    name: str
    formula: str
    """What it computes, where its docstring begins with that."""
    remark: str
    """What else the docstring says."""
    pointers: tuple[str, ...]
    sizes: tuple[str, ...]
    """Plain arguments: sizes and strides."""
    constants: tuple[str, ...]
    """`tl.constexpr` arguments."""
    programs: int
    """Dimensions of the grid it asks for."""
    loads: int
    stores: int
    loops: int
    dots: int
    scans: int
    atomics: int
    reductions: tuple[str, ...]
    exponentials: bool
    casts_to_fp32: bool
    wide_offsets: bool
    masked: bool


@dataclass(frozen=True)
class Launch:
    """Where a kernel is started."""

    kernel: str
    grid: str
    """The grid as the program writes it."""
    settings: dict[str, str] = field(default_factory=dict)
    """Constants of the launch, by name, as written."""


@dataclass(frozen=True)
class Facts:
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    helpers: tuple[str, ...]
    """`@triton.jit` functions only other kernels call."""
    reads_shapes: bool
    """Sizes come from the tensors."""
    allocations: int
    """Intermediate and output tensors the wrappers allocate."""
    parameters: tuple[str, ...]
    """Attributes of the module that `forward` hands to kernels."""
    borrowed: tuple[str, ...]
    """Functions of libdevice the language itself does not have."""


def facts(code: str) -> Facts:
    tree = parse_source(code)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    kernels = {node.name: node for node in functions if _is_kernel(node)}
    launches = tuple(_launches(functions, _tables(tree)))
    launched = {launch.kernel for launch in launches}
    return Facts(
        kernels=tuple(_kernel(node) for name, node in kernels.items() if name in launched),
        launches=launches,
        helpers=tuple(name for name in kernels if name not in launched),
        reads_shapes=_reads_shapes(tree),
        allocations=sum(_calls(node) in _ALLOCATIONS for node in ast.walk(tree)),
        parameters=tuple(_parameters(functions)),
        borrowed=borrowed(tree),
    )


def borrowed(tree: ast.Module) -> tuple[str, ...]:
    """Functions of libdevice the language itself does not have, in the order they are met."""
    used = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_libdevice(node.value))
    return tuple(dict.fromkeys(name for name in used if name not in _LANGUAGE))


def _is_libdevice(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "libdevice"


def _reads_shapes(tree: ast.Module) -> bool:
    """Sizes are computed with; a guard that only compares them with the ones the file was made for does not count."""
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Assert | ast.Raise)]
    guarded = {id(inner) for guard in guards for inner in ast.walk(guard)}
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("shape", "numel") and id(node) not in guarded
        for node in ast.walk(tree)
    )


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)


def _kernel(node: ast.FunctionDef) -> Kernel:
    noted = [(argument.arg, argument.annotation) for argument in node.args.args]
    constants = tuple(name for name, note in noted if note is not None and "constexpr" in ast.unparse(note))
    plain = [a.arg for a in node.args.args if a.arg not in constants]
    calls = [_calls(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    addressed = _addressed(node)
    axes = [ast.unparse(inner.args[0]) for inner in ast.walk(node)
            if isinstance(inner, ast.Call) and _calls(inner) == "program_id" and inner.args]  # fmt: skip
    text = ast.unparse(node)
    formula, remark = formula_of(ast.get_docstring(node) or "")
    return Kernel(
        name=node.name,
        formula=formula,
        remark=remark,
        pointers=tuple(name for name in plain if name in addressed),
        sizes=tuple(name for name in plain if name not in addressed),
        constants=constants,
        programs=len(set(axes)),
        loads=calls.count("load"),
        stores=calls.count("store"),
        loops=sum(isinstance(inner, ast.For | ast.While) for inner in ast.walk(node)),
        dots=calls.count("dot"),
        scans=sum(calls.count(name) for name in ("cumsum", "cumprod", "associative_scan")),
        atomics=sum(name.startswith("atomic_") for name in calls),
        reductions=tuple(dict.fromkeys(_REDUCTIONS[name] for name in calls if name in _REDUCTIONS)),
        exponentials=any(name in ("exp", "exp2") for name in calls),
        casts_to_fp32="to(tl.float32)" in text,
        wide_offsets="tl.int64" in text,
        masked="mask=" in text,
    )


def _addressed(node: ast.FunctionDef) -> set[str]:
    """Arguments loads and stores start from, directly or through a variable."""
    made: dict[str, set[str]] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign) and len(inner.targets) == 1 and isinstance(inner.targets[0], ast.Name):
            made.setdefault(inner.targets[0].id, set()).update(_names(inner.value))
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and _calls(inner).startswith(("load", "store", "atomic_")) and inner.args:
            found |= _names(inner.args[0])
    for _ in range(3):
        found |= {name for variable in list(found) for name in made.get(variable, ())}
    return {name for name in found if name.endswith(("_ptr", "_ptrs", "ptr"))}


def _launches(functions: list[ast.FunctionDef], tables: dict[str, dict[str, dict[str, object]]]) -> list[Launch]:
    found: list[Launch] = []
    for function in functions:
        local = {
            node.targets[0].id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            if isinstance(node.func.value, ast.Name):
                found.append(Launch(node.func.value.id, _grid(node.func.slice, local), _settings(node, local, tables)))
    unique: dict[tuple[str, str], Launch] = {(launch.kernel, launch.grid): launch for launch in found}
    return list(unique.values())


def _grid(given: ast.expr, local: dict[str, ast.expr]) -> str:
    """As the program writes it; what it only gave a name to is spelled out."""
    if isinstance(given, ast.Name) and given.id in local:
        given = local[given.id]
    if isinstance(given, ast.Tuple) and len(given.elts) == 1:
        only = given.elts[0]
        if isinstance(only, ast.Name) and only.id in local:
            return f"({ast.unparse(local[only.id])},)"
    return ast.unparse(given)


def _settings(
    call: ast.Call, local: dict[str, ast.expr], tables: dict[str, dict[str, dict[str, object]]]
) -> dict[str, str]:
    """Keywords of a launch; names of constants and of rows of a table are looked up."""
    settings: dict[str, str] = {}
    for word in call.keywords:
        value = word.value
        if isinstance(value, ast.Name) and value.id in local:
            value = local[value.id]
        if word.arg is not None:
            settings[word.arg] = ast.unparse(value)
        elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            row = tables.get(ast.unparse(value.value), {}).get(str(value.slice.value), {})
            settings |= {name: repr(constant) for name, constant in row.items()}
    return settings


def _tables(tree: ast.Module) -> dict[str, dict[str, dict[str, object]]]:
    """Tables of launch settings at the top of the file, by their name."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and isinstance(node.targets[0], ast.Name):
            try:
                rows = parse_literal(node.value)
            except ValueError:
                continue
            if all(isinstance(row, dict) for row in rows.values()):
                found[node.targets[0].id] = rows
    return found


def _parameters(functions: list[ast.FunctionDef]) -> list[str]:
    found: list[str] = []
    for function in functions:
        if function.name == "forward":
            for node in ast.walk(function):
                text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
                if text.startswith("self.") and text.endswith((".weight", ".bias")):
                    found.append(text)
    return list(dict.fromkeys(found))


def _calls(node: ast.AST) -> str:
    """The last name of what is called."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
