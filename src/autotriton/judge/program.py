"""The task as a program: build its model, draw its inputs, run it, and read and randomise its state.

Runs only in the trusted reference process and executes only the task's own source, never a candidate. Whatever
that source raises becomes a `TaskError` that names the function; the same seed always gives the same tensors.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import linecache
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from autotriton.errors import TaskError
from autotriton.judge.shortage import out_of_memory
from autotriton.types import Mode, Task

FILENAME = "<task>"
Leaf = Tensor | float | int | bool | str | None
Model = Callable[..., Any]
"""A module, or a plain function that is its own model."""


@dataclass(frozen=True)
class Inputs:
    """What one call of the model gets."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def map(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same inputs with every tensor changed; a tensor passed twice is changed once."""
        args, kwargs = map_tensors(change, (self.args, self.kwargs))
        return Inputs(tuple(args), dict(kwargs))

    def clone(self) -> Inputs:
        return self.map(clone)

    def leaves(self) -> list[Leaf]:
        """Every tensor and scalar: positional ones first, dict entries in key order."""
        return flatten((self.args, self.kwargs))[0]


class Program:
    """One task, imported once."""

    def __init__(self, task: Task, device: str = "cpu") -> None:
        self.task = task
        self.device = torch.device(device)
        self.module = self._import()
        self.entry: Callable[..., Any] = self._attribute(task.entry)

    def build(self, seed: int) -> Callable[..., Any]:
        """The model with the parameters this seed gives it; a plain function is its own model."""
        if not inspect.isclass(self.entry):
            return self.entry
        args, kwargs = self.init_arguments(seed)
        with self._calling(f"{self.task.entry}.__init__"), torch.no_grad():
            built: Any = self.entry(*args, **kwargs)
            if isinstance(built, nn.Module):
                built.to(self.device).train(self.task.mode is Mode.TRAIN)
        model: Callable[..., Any] = built
        return model

    def init_arguments(self, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the task's class is constructed with; its generators stand where this leaves them."""
        seed_everything(seed)
        with self._calling("get_init_inputs"):
            given: Any = getattr(self.module, "get_init_inputs", tuple)()
            return _call_arguments(given, pair=(list, tuple))

    def draw(self, seed: int) -> Inputs:
        """One set of inputs, on the device, outside autograd."""
        get_inputs = self._attribute("get_inputs")
        seed_everything(seed)
        with self._calling("get_inputs"), torch.no_grad():
            args, kwargs = _call_arguments(get_inputs(), pair=(tuple,))
            return Inputs(args, kwargs).map(lambda tensor: tensor.detach().to(self.device))

    def run(self, model: Callable[..., Any], inputs: Inputs, seed: int = 0) -> Any:
        """One forward pass, without autograd, with the task's TF32 setting and a known RNG state."""
        torch.backends.cuda.matmul.allow_tf32 = self.task.tf32
        torch.backends.cudnn.allow_tf32 = self.task.tf32
        seed_everything(seed)
        with self._calling(_name_of(model)), torch.no_grad():
            return model(*inputs.args, **inputs.kwargs)

    def _import(self) -> ModuleType:
        root = self.task.import_root
        if root is not None and root not in sys.path:
            sys.path.insert(0, root)
        source = self.task.source
        linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
        module = ModuleType(f"autotriton_task_{self.task.hash}")
        sys.modules[module.__name__] = module  # dataclasses and pickling look their module up by name
        seed_everything(0)
        with self._calling("the source"):
            exec(compile(source, FILENAME, "exec"), module.__dict__)
        return module

    def _attribute(self, name: str) -> Callable[..., Any]:
        value = getattr(self.module, name, None)
        if not callable(value):
            raise TaskError(
                f"task {self.task.id} defines no callable `{name}`", hint=f"define `{name}` at the top of the task file"
            )
        found: Callable[..., Any] = value
        return found

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        """Tensors made inside land on the device; whatever foreign code raises becomes one line."""
        try:
            with self.device:
                yield
        except TaskError:
            raise
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            text = " ".join(str(error).split())[:300]
            if out_of_memory(error):
                text = f"out of memory ({text})"
            raise TaskError(
                f"task {self.task.id}: {what} raised {type(error).__name__}: {text}",
                hint="run the task file by itself and fix it; a reference that raises cannot be judged",
            ) from error


def seed_everything(seed: int) -> None:
    """Seed every generator a task may draw from."""
    # Not `torch.manual_seed`: without a GPU it keeps a stack trace per call for a CUDA that never starts, 0.8 ms each.
    torch.default_generator.manual_seed(seed)
    if _has_gpu():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


@functools.cache
def _has_gpu() -> bool:
    return torch.cuda.is_available()


def flatten(obj: Any) -> tuple[list[Leaf], Any]:
    """Leaves in a fixed order (dict entries by key, lists and tuples alike) and the pytree spec."""
    leaves, spec = pytree.tree_flatten(_canonical(obj))
    return leaves, spec


def structure(obj: Any) -> Any:
    """The containers as JSON: equal exactly when two results have the same shape of containers and kinds of leaves."""
    return _describe(_canonical(obj))


def map_tensors(change: Callable[[Tensor], Tensor], obj: Any) -> Any:
    """`obj` with every tensor changed, and one tensor reached by two paths changed once."""
    done: dict[tuple[Any, ...], Tensor] = {}

    def once(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        key = (leaf.data_ptr(), tuple(leaf.shape), leaf.stride(), leaf.dtype) if leaf.numel() else (id(leaf),)
        if key not in done:
            done[key] = change(leaf)
        return done[key]

    return pytree.tree_map(once, obj)


def clone(tensor: Tensor) -> Tensor:
    """A copy with the same strides, also where the tensor is a slice or expanded."""
    if tensor.layout is not torch.strided:
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    flat = torch.as_strided(tensor, (span,), (1,)).clone()
    return flat.as_strided(tensor.shape, tensor.stride())


def duplicate(model: Callable[..., Any]) -> Callable[..., Any]:
    """A model whose state can change without touching the original's."""
    return copy.deepcopy(model) if isinstance(model, nn.Module) else model


def state(model: Callable[..., Any]) -> dict[str, Tensor]:
    """Every parameter and buffer by name, non-persistent and shared ones included; shares memory with the model."""
    if not isinstance(model, nn.Module):
        return {}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach() for name, tensor in named}


def randomise_state(model: Callable[..., Any], seed: int) -> None:
    """Give trainable parameters and norm statistics new values of about the old scale, in place.

    Frozen parameters and other buffers (masks, tables, counters) stay: an honest kernel may recompute those.
    """
    if not isinstance(model, nn.Module):
        return
    for index, tensor in enumerate(_changeable(model)):
        scramble(tensor, seed + 7919 * index)


def scramble(tensor: Tensor, seed: int) -> None:
    """p -> p * U(0.5, 1.5) + 0.1 * N(0, 1) * std(p), in place; all-zero -> N(0, 0.3); signs kept where all >= 0."""
    old = tensor.detach()
    if not old.is_floating_point() or old.numel() == 0 or not bool(torch.isfinite(old).all()):
        return
    generator = torch.Generator(device=old.device).manual_seed(seed % 2**63)
    wide = old.to(torch.promote_types(old.dtype, torch.float32))
    noise = torch.randn(wide.shape, generator=generator, device=wide.device, dtype=wide.dtype)
    factor = 0.5 + torch.rand(wide.shape, generator=generator, device=wide.device, dtype=wide.dtype)
    if not bool(wide.any()):
        new = 0.3 * noise
    else:
        spread = float(wide.std()) if bool((wide != wide.flatten()[0]).any()) else float(wide.flatten()[0].abs())
        new = wide * factor + 0.1 * spread * noise
        new = new.abs() if bool((wide >= 0).all()) else new
    with torch.no_grad():
        old.copy_(new)


def _changeable(model: nn.Module) -> list[Tensor]:
    tensors: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            tensors += [kept for kept in (layer.running_mean, layer.running_var) if kept is not None]
    return tensors


def _call_arguments(given: Any, pair: tuple[type, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of a list, a dict, a single value, or a pair of both."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if type(given) in pair and len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return tuple(given[0]), dict(given[1])
    if isinstance(given, list | tuple):
        return tuple(given), {}
    return (given,), {}


def _canonical(obj: Any) -> Any:
    if isinstance(obj, Mapping):
        return {key: _canonical(obj[key]) for key in sorted(obj, key=repr)}
    if isinstance(obj, list | tuple):
        return tuple(_canonical(item) for item in obj)
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return {f.name: _canonical(getattr(obj, f.name)) for f in sorted(dataclasses.fields(obj), key=lambda f: f.name)}
    if obj is None or isinstance(obj, Tensor | bool | int | float | str):
        return obj
    raise TaskError(
        f"a value of type {type(obj).__name__} cannot be compared",
        hint="use tensors, numbers, strings and None in lists, tuples and dicts",
    )


def _describe(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {"dict": {str(key): _describe(value) for key, value in obj.items()}}
    if isinstance(obj, tuple):
        return [_describe(item) for item in obj]
    return "tensor" if isinstance(obj, Tensor) else type(obj).__name__


def _name_of(model: Callable[..., Any]) -> str:
    if isinstance(model, nn.Module):
        return f"{type(model).__name__}.forward"
    return str(getattr(model, "__name__", type(model).__name__))
