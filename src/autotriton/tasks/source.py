"""A user's file becomes a Task: `file.py` in KernelBench style, or `file.py:Name` for any class or function in it.

Must stay true: the file is parsed, never run, and no torch is imported. The task's source is the user's text with, at
most, generated functions appended, so line numbers in messages are those of the file.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.errors import UsageError
from autotriton.syntax import parse_source
from autotriton.tasks import inputs as flags
from autotriton.types import Mode, Task

DEFAULT_ENTRY = "Model"
_MARK = "\n\n# Below: generated from the command line, not part of the file.\n"
_SPEC = re.compile(r"(?P<path>.+):(?P<name>[A-Za-z_]\w*)", re.DOTALL)


def load(
    spec: str | os.PathLike[str],
    *,
    mode: Mode | str = Mode.TRAIN,
    tf32: bool = False,
    inputs: Sequence[str] = (),
    init: Sequence[str] = (),
) -> Task:
    """The task `spec` names. `inputs` and `init` are flags as in `tasks/inputs.py` and replace the file's own."""
    path, name = split(os.fspath(spec))
    text = read(path, "task")
    module = _outline(_parse(text, path))
    entry = name or DEFAULT_ENTRY
    _require_entry(module, entry, path, named=name is not None)
    return Task(
        id=path.stem + (f":{name}" if name else ""),
        source=text + _appended(module, entry, path, inputs, init),
        entry=entry,
        mode=Mode(mode),
        tf32=tf32,
        import_root=_import_root(module, path),
    )


def split(spec: str) -> tuple[Path, str | None]:
    """`file.py:Name` into its parts; a file that really has such a name wins."""
    match = _SPEC.fullmatch(spec)
    if match is None or Path(spec).exists():
        return Path(spec).expanduser(), None
    return Path(match["path"]).expanduser(), match["name"]


def read(path: Path, what: str) -> str:
    """The text of a Python file; `what` names its role in messages (task, candidate)."""
    if path.is_dir():
        raise UsageError(f"the {what} {path} is a folder", hint="name a Python file in it")
    if not path.exists():
        raise UsageError(f"the {what} {path} does not exist", hint="check the path")
    if not path.is_file():
        raise UsageError(f"the {what} {path} is not a regular file", hint="name a Python file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the {what} {path} cannot be read: {error.strerror}", hint="check its permissions") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"the {what} {path} is not a text file", hint="name a Python file in UTF-8")
    if not text.strip():
        raise UsageError(f"the {what} {path} is empty", hint="name a Python file with code in it")
    return text.replace("\r\n", "\n")


@dataclass
class _Outline:
    """What a module binds at its top level."""

    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Assigned or imported names: what they are cannot be seen without running the file."""
    imports: set[str] = field(default_factory=set)
    """First parts of the modules imported anywhere in it."""
    relative: int | None = None
    """Line of the first relative import."""
    star: bool = False
    """Has `from x import *`, which may bind anything."""

    def binds(self, name: str) -> bool:
        return name in self.functions or name in self.classes or name in self.others or self.star


def _parse(text: str, path: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_source(text, filename=str(path))
    except SyntaxError as error:
        raise UsageError(
            f"the task {path} is not valid Python: {error.msg}, line {error.lineno}", hint="fix that line"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"the task {path} cannot be parsed: {error}", hint="name a Python file") from None


def _outline(tree: ast.Module) -> _Outline:
    module = _Outline()
    for node in _top_level(tree.body):
        _bind(module, node)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Import):
            module.imports |= {alias.name.partition(".")[0] for alias in inner.names}
        elif isinstance(inner, ast.ImportFrom) and inner.level:
            module.relative = min(inner.lineno, module.relative or inner.lineno)
        elif isinstance(inner, ast.ImportFrom):
            module.imports.add((inner.module or "").partition(".")[0])
    return module


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind in the module, also those under `if`, `try`, `with` and loops."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, part, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _top_level(handler.body)


def _bind(module: _Outline, node: ast.stmt) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        module.functions[node.name] = node
    elif isinstance(node, ast.ClassDef):
        module.classes[node.name] = node
    elif isinstance(node, ast.Import | ast.ImportFrom):
        bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        module.star |= "*" in bound
        module.others |= bound - {"*"}
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        module.others |= {t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)}


def _require_entry(module: _Outline, entry: str, path: Path, *, named: bool) -> None:
    if module.relative is not None:
        raise UsageError(
            f"the task {path} has a relative import, line {module.relative}",
            hint="a task is loaded on its own: import files beside it by their plain name",
        )
    if module.binds(entry):
        return
    there = [*module.classes, *(name for name in module.functions if name not in ("get_inputs", "get_init_inputs"))]
    listing = f"it has: {', '.join(there)}" if there else "it has no class or function"
    if named:
        raise UsageError(f"the task {path} has no {entry!r}", hint=listing)
    raise UsageError(f"the task {path} has no class `Model`", hint=f"name one as {path.name}:Name; {listing}")


def _appended(module: _Outline, entry: str, path: Path, inputs: Sequence[str], init: Sequence[str]) -> str:
    """Source of the functions that come from flags, or that the file may leave out."""
    parts: list[str] = []
    if inputs:
        arguments = [flags.parse_input(flag) for flag in inputs]
        _require_fit(_forward(module, entry), arguments, f"{entry}'s inputs", "--input")
        parts.append(flags.generate("get_inputs", arguments))
    elif not module.binds("get_inputs"):
        raise UsageError(
            f"the task {path} has no `get_inputs`", hint='define it, or give each input: --input "8x1024:float32"'
        )
    if entry in module.functions:
        if init:
            raise UsageError(f"--init is for classes, and {entry!r} is a function", hint="leave --init out")
    elif init or not module.binds("get_init_inputs"):
        arguments = [flags.parse_init(flag) for flag in init]
        _require_fit(_method(module, entry, "__init__"), arguments, f"{entry}'s constructor", "--init")
        parts.append(flags.generate("get_init_inputs", arguments))
    return _MARK + "\n\n".join(parts) if parts else ""


def _forward(module: _Outline, entry: str) -> ast.arguments | None:
    if entry in module.functions:
        return module.functions[entry].args
    return _method(module, entry, "forward")


def _method(module: _Outline, entry: str, name: str) -> ast.arguments | None:
    """Arguments of a method without `self`; None when the class does not define it itself."""
    body = module.classes[entry].body if entry in module.classes else []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == name and not node.decorator_list:
            return _without_self(node.args)
    return None


def _without_self(given: ast.arguments) -> ast.arguments:
    positional = [*given.posonlyargs, *given.args][1:]
    return ast.arguments([], positional, given.vararg, given.kwonlyargs, given.kw_defaults, given.kwarg, given.defaults)


def _require_fit(given: ast.arguments | None, arguments: Sequence[flags.Argument], what: str, option: str) -> None:
    """Flags that cannot be the call's arguments are a usage error, told before anything runs."""
    if given is None:
        return
    positional = [a.arg for a in (*given.posonlyargs, *given.args)]
    keywords = {a.name for a in arguments if a.name is not None}
    count = sum(a.name is None for a in arguments)
    takes = f"it takes: {', '.join([*positional, *(a.arg for a in given.kwonlyargs)]) or 'nothing'}"
    if count > len(positional) and given.vararg is None:
        raise UsageError(f"{what}: {count} given by {option}, at most {len(positional)} taken", hint=takes)
    unknown = sorted(keywords - {*positional, *(a.arg for a in given.kwonlyargs)})
    if unknown and given.kwarg is None:
        raise UsageError(f"{what}: unknown name {unknown[0]!r} in {option}", hint=takes)
    required = positional[: len(positional) - len(given.defaults)][count:]
    required += [a.arg for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None]
    missing = [name for name in required if name not in keywords]
    if missing:
        raise UsageError(f"{what}: no value for {', '.join(missing)}", hint=f"give it with {option}; {takes}")


def _import_root(module: _Outline, path: Path) -> str | None:
    """The file's folder when it imports what lies beside it."""
    folder = path.resolve().parent
    known = sys.stdlib_module_names | {"torch", "triton", "numpy"}
    for name in module.imports - known - {"", path.stem}:
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
            return str(folder)
    return None
