"""The candidate at work, in the worker: its file as a module, its model built as the task builds it, one set of inputs.

The task's own source runs here too, for `get_init_inputs` and `get_inputs`; its model is never built.
"""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree

from autotriton.types import Mode, Task

SEED = 0
_CANDIDATE = "autotriton_candidate"


def load(path: str, name: str = _CANDIDATE) -> ModuleType:
    """The candidate's file, imported from where it lies: Triton reads a kernel's source from its file."""
    spec = importlib.util.spec_from_file_location(name, Path(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Subject:
    """A model and what to call it with."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def forward(self) -> Any:
        with torch.no_grad():
            return self.model(*self.args, **self.kwargs)


def build(task: Task, candidate: ModuleType, device: str) -> Subject:
    """The candidate's model and the task's inputs, everything on the device."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = task.tf32
    place = torch.device(device)
    with place, torch.no_grad():
        source = _import(task)
        model = _model(task, source, candidate, place)
        _seed()
        args, kwargs = _arguments(source.get_inputs(), pair=(tuple,))
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().to(place), (args, kwargs))
    return Subject(model, tuple(args), dict(kwargs))


def _import(task: Task) -> ModuleType:
    if task.import_root is not None and task.import_root not in sys.path:
        sys.path.insert(0, task.import_root)
    module = ModuleType(f"autotriton_task_{task.hash}")
    sys.modules[module.__name__] = module  # dataclasses look their module up by name
    exec(compile(task.source, "<task>", "exec"), module.__dict__)
    return module


def _model(task: Task, source: ModuleType, candidate: ModuleType, place: torch.device) -> Callable[..., Any]:
    entry: Any = _entry(task, candidate)
    if not inspect.isclass(entry):
        function: Callable[..., Any] = entry
        return function
    _seed()
    args, kwargs = _arguments(getattr(source, "get_init_inputs", tuple)(), pair=(list, tuple))
    model: Any = entry(*args, **kwargs)
    if isinstance(model, torch.nn.Module):
        model.to(place).train(task.mode is Mode.TRAIN)
    built: Callable[..., Any] = model
    return built


def _entry(task: Task, candidate: ModuleType) -> Any:
    """The names a replacement may have, as the judge has them."""
    names = ["ModelNew"] if task.entry == "Model" else ["ModelNew", f"{task.entry}New", f"{task.entry}_new", task.entry]
    for name in names:
        if callable(getattr(candidate, name, None)):
            return getattr(candidate, name)
    raise AttributeError(f"the candidate defines none of: {', '.join(names)}")


def _arguments(given: Any, pair: tuple[type, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of a list, a dict, a single value, or a pair of both."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if type(given) in pair and len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return tuple(given[0]), dict(given[1])
    return (tuple(given), {}) if isinstance(given, list | tuple) else ((given,), {})


def _seed() -> None:
    torch.manual_seed(SEED)
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
