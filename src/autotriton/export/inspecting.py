"""Learns a task's `Facts`. Entry of the child process: `python -m autotriton.export.inspecting REQUEST ANSWER`.

Executes the task's source and the judged kernel file's constructor, on fake tensors: nothing large is ever allocated.
"""

from __future__ import annotations

import inspect
import json
import keyword
import linecache
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram

from autotriton.errors import AutoTritonError, TaskError
from autotriton.export.facts import Argument, Facts, Held
from autotriton.export.templates.binding import leaves, spots
from autotriton.judge.program import Inputs, Program
from autotriton.judge.trial import entries
from autotriton.types import Mode, Task

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}
_FILENAME = "<kernels>"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PLAIN = (bool, int, float, str, type(None))


def learn(task: Task, code: str) -> Facts:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        program = Program(task)
        model = _built(program)
        inputs = program.draw(0)
        result = program.run(model, inputs.clone())
    taken = {"torch", "Tensor", "state", "results", "self", "forward"}
    call = _Call(model, taken)
    text = call.write(inputs)
    changed, changed_inputs = _changes(model, inputs)
    mode_matters = _mode_matters(model, inputs)
    entry, kernel = _kernel(program, code)
    held = _held(model, kernel, taken)
    named = dict(zip(_tensor_leaves(inputs), [a.name for a in call.arguments if a.type == "Tensor"], strict=True))
    return Facts(
        is_function=not isinstance(model, nn.Module),
        kernel_entry=entry,
        kernel_is_function=not isinstance(kernel, nn.Module),
        signature=call.signature(),
        fixed=call.fixed,
        inputs=tuple(call.arguments),
        call=text,
        state=tuple(held),
        changed=tuple(h.argument for h in held if changed & {*h.names}),
        changed_inputs=tuple(named[index] for index in changed_inputs),
        orders=tuple(_order(tensor) for tensor in leaves(result)),
        mode_matters=mode_matters,
        returned=_returned(result, iter(range(len(leaves(result))))),
        no_gradients=_no_gradients(mode, model, inputs),
    )


def _built(program: Program) -> Any:
    """As `Program.build`, which moves the model; a model of fake tensors cannot be moved."""
    if not inspect.isclass(program.entry):
        return program.entry
    args, kwargs = program.init_arguments(0)
    with program._calling(f"{program.task.entry}.__init__"):
        built: Any = program.entry(*args, **kwargs)
        return built.train(program.task.mode is Mode.TRAIN)


class _Call:
    """Arguments of the operator, out of the arguments of one call."""

    def __init__(self, model: Any, taken: set[str]) -> None:
        self.parameters = inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters
        self.taken = taken
        self.arguments: list[Argument] = []
        self.fixed: dict[str, str] = {}

    def write(self, inputs: Inputs) -> str:
        """The call as source, over the operator's arguments."""
        names = list(self.parameters)
        plain = [n for n in names if self.parameters[n].kind in _POSITIONAL]
        rest = next((n for n in names if self.parameters[n].kind is inspect.Parameter.VAR_POSITIONAL), "args")
        others = next((n for n in names if self.parameters[n].kind is inspect.Parameter.VAR_KEYWORD), "kwargs")
        parts, seen = [], set()
        for index, value in enumerate(inputs.args):
            expression = plain[index] if index < len(plain) else f"{rest}[{index - len(plain)}]"
            seen.add(expression.partition("[")[0])
            parts.append(self.value(value, expression))
        for key, value in inputs.kwargs.items():
            expression = key if key in self.parameters else f"{others}[{key!r}]"
            seen.add(expression.partition("[")[0])
            parts.append(f"{key}={self.value(value, expression)}")
        self._fix([name for name in names if name not in seen])
        return ", ".join(parts)

    def value(self, value: Any, expression: str) -> str:
        if isinstance(value, Tensor):
            return self.argument("Tensor", expression)
        if type(value) in _TYPES:
            return self.argument(_TYPES[type(value)], expression)
        if value is None:
            self.fixed[expression] = "None"
            return "None"
        if type(value) in (list, tuple):
            inner = [self.value(item, f"{expression}[{index}]") for index, item in enumerate(value)]
            return f"[{', '.join(inner)}]" if type(value) is list else f"({''.join(f'{item}, ' for item in inner)})"
        if isinstance(value, dict):
            entries = [f"{key!r}: {self.value(item, f'{expression}[{key!r}]')}" for key, item in value.items()]
            return f"{{{', '.join(entries)}}}"
        raise TaskError(f"input {expression} is a {type(value).__name__}, which an operator cannot take")

    def argument(self, kind: str, expression: str) -> str:
        name = _identifier(expression, self.taken)
        self.arguments.append(Argument(name=name, type=kind, expression=expression))
        return name

    def _fix(self, names: list[str]) -> None:
        """Parameters left at their defaults stay there."""
        for name in names:
            default = self.parameters[name].default
            if isinstance(default, _PLAIN):
                self.fixed[name] = repr(default)

    def signature(self) -> str:
        parameters = []
        for parameter in self.parameters.values():
            default = parameter.default
            if default is not inspect.Parameter.empty and not isinstance(default, _PLAIN):
                default = None
            parameters.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
        return str(inspect.Signature(parameters))[1:-1]


def _identifier(text: str, taken: set[str]) -> str:
    name = re.sub(r"\W+", "_", text).strip("_") or "value"
    name = f"p{name}" if name[0].isdigit() else name
    while name in taken or keyword.iskeyword(name):
        name += "_"
    taken.add(name)
    return name


def _tensor_leaves(inputs: Inputs) -> list[int]:
    """Numbers of the tensors among the flat inputs, as torch.export counts them."""
    flat = torch.utils._pytree.tree_leaves((inputs.args, inputs.kwargs))
    return [index for index, leaf in enumerate(flat) if isinstance(leaf, Tensor)]


class _AsModule(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _changes(model: Any, inputs: Inputs) -> tuple[set[str], list[int]]:
    """Buffers and inputs forward changes in place."""
    signature = _exported(model, inputs).run_decompositions({}).graph_signature
    changed = set(signature.user_inputs_to_mutate.values())
    places = [index for index, name in enumerate(signature.user_inputs) if name in changed]
    return set(signature.buffers_to_mutate.values()), places


def _exported(model: Any, inputs: Inputs) -> ExportedProgram:
    module = model if isinstance(model, nn.Module) else _AsModule(model)
    return torch.export.export(module, inputs.args, inputs.kwargs, strict=False)


def _mode_matters(model: Any, inputs: Inputs) -> bool:
    if not isinstance(model, nn.Module):
        return False
    one = _exported(model, inputs).graph_module.code
    model.train(not model.training)
    try:
        return bool(one != _exported(model, inputs).graph_module.code)
    except Exception:  # noqa: BLE001 - the other mode may do what cannot be traced
        return True
    finally:
        model.train(not model.training)


def _held(model: Any, kernel: Any, taken: set[str]) -> list[Held]:
    """The reference's tensors, each once, and where the kernel file's module has them."""
    if not isinstance(model, nn.Module):
        return []
    shared: dict[int, list[str]] = {}
    for name, spot in spots(model).items():
        shared.setdefault(id(_at(model, spot)), []).append(name)
    partners = _partners(model, kernel)
    return [
        Held(
            names=tuple(names),
            argument=_identifier(names[0], taken),
            expression=_path(model, names[0]),
            kernel=tuple(partner for name in names if (partner := partners[name]) is not None),
        )
        for names in shared.values()
    ]


def _at(module: nn.Module, spot: tuple[str, str, str]) -> Any:
    return getattr(module.get_submodule(spot[0]), spot[2])


def _partners(model: nn.Module, kernel: Any) -> dict[str, str | None]:
    """For each tensor of the reference its counterpart in the kernel file: by name, else by shape and order."""
    wanted = {name: _at(model, spot).shape for name, spot in spots(model).items()}
    have = {n: _at(kernel, s).shape for n, s in spots(kernel).items()} if isinstance(kernel, nn.Module) else {}
    found: dict[str, str | None] = {name: name for name, shape in wanted.items() if have.get(name) == shape}
    for name in found:
        del have[name]
    for name, shape in wanted.items():
        if name not in found:
            found[name] = next((other for other, there in have.items() if there == shape), None)
            have.pop(found[name] or "", None)
    return found


def _kernel(program: Program, code: str) -> tuple[str, Any]:
    """The kernel file's entry: its name, and the function, or an instance on fake tensors."""
    module = ModuleType("kernels")
    sys.modules["kernels"] = module
    linecache.cache[_FILENAME] = (len(code), None, code.splitlines(keepends=True), _FILENAME)  # Triton reads it
    exec(compile(code, _FILENAME, "exec"), module.__dict__)
    name = next(name for name in entries(program.task) if hasattr(module, name))
    found = getattr(module, name)
    if not inspect.isclass(found):
        return name, found
    args, kwargs = program.init_arguments(0)
    with FakeTensorMode(allow_non_fake_inputs=True):
        return name, found(*args, **kwargs)


def _path(model: nn.Module, name: str) -> str:
    text, owner = "self", model
    for part in name.split("."):
        if isinstance(owner, nn.ModuleDict | nn.ParameterDict):
            text += f"[{part!r}]"
        elif isinstance(owner, nn.ModuleList | nn.Sequential | nn.ParameterList) and part.isdigit():
            text += f"[{part}]"
        else:
            text += f".{part}"
        owner = getattr(owner, part)
    return text


def _order(tensor: Tensor) -> tuple[int, ...]:
    strides = tensor.stride()
    return tuple(sorted(range(tensor.dim()), key=lambda axis: (strides[axis], -axis)))


def _returned(value: Any, numbers: Any) -> str:
    """The returned structure as source; tensors are numbered as `leaves` does."""
    if isinstance(value, Tensor):
        return f"results[{next(numbers)}]"
    if isinstance(value, Mapping):
        entries = {key: _returned(value[key], numbers) for key in sorted(value, key=repr)}
        return "{" + ", ".join(f"{key!r}: {entries[key]}" for key in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_returned(item, numbers) for item in value) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(_returned(item, numbers) + ", " for item in value) + ")"
    return repr(value)


def _no_gradients(mode: FakeTensorMode, model: Any, inputs: Inputs) -> str | None:
    """Why the reference has no gradients; None when it has."""
    given = inputs.map(lambda tensor: tensor.requires_grad_() if tensor.dtype.is_floating_point else tensor)
    try:
        with mode, torch.enable_grad():
            results = [r for r in leaves(model(*given.args, **given.kwargs)) if r.requires_grad]
            if not results:
                return "no result of the reference depends differentiably on its inputs or parameters"
            sources = [t for t in given.leaves() if isinstance(t, Tensor) and t.requires_grad]
            sources += [p for p in (model.parameters() if isinstance(model, nn.Module) else []) if p.requires_grad]
            torch.autograd.grad([r.sum() for r in results], sources, allow_unused=True)
    except Exception as error:  # noqa: BLE001 - whatever an operator without gradients raises
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return None


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    try:
        answer = learn(Task.model_validate(request["task"]), request["code"]).model_dump_json()
    except AutoTritonError as error:
        answer = json.dumps({"error": str(error)})
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code and torch.export may raise anything
        answer = json.dumps({"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]})
    Path(answer_path).write_text(answer, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
