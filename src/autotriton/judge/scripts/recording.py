"""The gold file run once with its own test, every call of the test into the implementation written down.

Runs in the trusted process only. The test gets stand-ins for the implementation's names; the implementation itself
keeps its own, so that only the test's calls are recorded. Kept of each call: what it was given, from which memory, and
with which gradients the test went backwards through it. Seeds the test sets are mixed with a secret one.

Covers functions, kernels launched by the test, modules and other classes (constructor, call, methods), static methods
of autograd functions, objects handed from call to call, calls that raise. Does not cover arguments that cannot travel
(generators, lambdas): such calls are listed and not replayed.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch

from autotriton.errors import TaskError
from autotriton.judge.program import seed_everything
from autotriton.judge.scripts.packing import Handle, Named, Pieces, Place, pack, replaced
from autotriton.judge.scripts.parts import completed, split

FILENAME, TEST_FILENAME = "<gold>", "<test>"
MOST_CALLS = 200


@dataclass
class Call:
    """One call of the test into the implementation."""

    path: str
    """`softmax`, `Attention.apply`; a method of an earlier result is `.forward`, of the object `on`."""
    kind: str = "call"
    """`call`, or `launch` for a kernel with a grid."""
    on: int | None = None
    packed: str = ""
    value: Any = None
    """Arguments with places, handles and names in them; what `packed` holds."""
    inputs: Pieces = field(default_factory=Pieces)
    states: list[tuple[int, str, int]] = field(default_factory=list)
    """Parameters and buffers of the modules this call sees: object, name, tensor number."""
    with_grad: bool = False
    grads: Pieces | None = None
    raised: str | None = None
    cannot: str | None = None
    """Why it cannot be replayed."""
    result: Any = None
    """What came back, kept while it may be handed to a later call."""
    objects: tuple[int, ...] = ()
    """Earlier calls whose results this one needs."""


class Recorder:
    """Runs the file; `calls` afterwards."""

    def __init__(self, source: str, name: str, seed: int) -> None:
        self.calls: list[Call] = []
        self.name, self.seed = name, seed
        implementation, test = split(source)
        self.gold = self._module("gold", completed(implementation, test), FILENAME)
        self._made: dict[int, int] = {}
        self._own = {id(value): key for key, value in vars(self.gold).items() if self._is_own(value)}
        self._run_test(test)

    def resolve(self, path: str) -> Any:
        found: Any = self.gold
        for part in path.split("."):
            found = getattr(found, part)
        return found

    # --- running ------------------------------------------------------------------------------------------

    def _module(self, name: str, text: str, filename: str) -> ModuleType:
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        module = ModuleType(name)
        module.__file__ = filename
        sys.modules[name] = module
        seed_everything(self.seed)
        self._foreign(lambda: exec(compile(text, filename, "exec"), module.__dict__), "its implementation")
        return module

    def _run_test(self, text: str) -> None:
        linecache.cache[TEST_FILENAME] = (len(text), None, text.splitlines(keepends=True), TEST_FILENAME)
        scope = {key: self._stand_in(key, value) for key, value in vars(self.gold).items()}
        scope["__name__"] = "__main__"
        itself = sys.modules[self.name] = ModuleType(self.name)  # some tests import their own file by its name
        vars(itself).update(scope)
        seed_everything(self.seed)
        with _mixed_seeds(self.seed):
            self._foreign(lambda: exec(compile(text, TEST_FILENAME, "exec"), scope), "its test")
        for call in self.calls:
            call.inputs.close()

    def _foreign(self, run: Callable[[], None], what: str) -> None:
        try:
            run()
        except TaskError:
            raise
        except (Exception, SystemExit) as error:  # the gold file is foreign code
            text = " ".join(str(error).split())[:300]
            raise TaskError(f"task {self.name}: {what} raised {type(error).__name__}: {text}") from error

    # --- stand-ins ----------------------------------------------------------------------------------------

    def _is_own(self, value: Any) -> bool:
        """Defined by the file, or a kernel made of something defined there."""
        if getattr(value, "__module__", None) == "gold" and callable(value):
            return True
        inner = getattr(value, "fn", None)
        return inner is not None and inner is not value and self._is_own(inner)

    def _stand_in(self, name: str, value: Any) -> Any:
        if _is_kernel(value) and self._is_own(value):
            return _Kernel(self, name, value)
        if isinstance(value, type) and value.__module__ == "gold":
            function = issubclass(value, torch.autograd.Function)
            return _Functions(self, name, value) if function else self._subclass(name, value)
        bound = getattr(value, "__self__", None)
        applied = isinstance(bound, type) and bound.__module__ == "gold"
        if applied or self._is_own(value):
            return self._recorded(name, value)
        return value

    def _recorded(self, path: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return self.record(Call(path), function, args, kwargs)

        return stand_in

    def _subclass(self, name: str, base: type) -> type:
        """Constructed and called like the original, with both written down."""
        recorder = self
        state = {"busy": False}

        def outermost(call: Call, function: Callable[..., Any], args: Any, kwargs: Any, me: Any) -> Any:
            if state["busy"]:
                return function(*args, **kwargs)
            state["busy"] = True
            try:
                return recorder.record(call, function, args, kwargs, me)
            finally:
                state["busy"] = False

        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            outermost(Call(name, kind="make"), lambda *a, **k: base.__init__(self, *a, **k), args, kwargs, self)  # type: ignore[misc]

        def method_of(key: str, original: Callable[..., Any]) -> Callable[..., Any]:
            def method(self: Any, *args: Any, **kwargs: Any) -> Any:
                made = recorder._made.get(id(self))
                if made is None:
                    return original(self, *args, **kwargs)
                call = Call(f".{key}", on=made, objects=(made,))
                return outermost(call, lambda *a, **k: original(self, *a, **k), args, kwargs, None)

            return method

        body: dict[str, Any] = {"__init__": construct, "__module__": "gold_recorded"}
        for key, value in vars(base).items():
            if isinstance(value, FunctionType) and (not key.startswith("_") or key == "__call__"):
                body[key] = method_of(key, value)
        return type(base)(base.__name__, (base,), body)

    # --- one call -----------------------------------------------------------------------------------------

    def record(self, call: Call, function: Callable[..., Any], args: Any, kwargs: Any, me: Any = None) -> Any:
        """Do the call and remember it; the test sees what it would have seen."""
        if len(self.calls) >= MOST_CALLS:
            return function(*args, **kwargs)
        tensors = self._take(call, args, kwargs)
        number = len(self.calls)
        self.calls.append(call)
        call.with_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        inner = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors] if call.with_grad else []
        if call.with_grad and call.kind == "call" and not call.objects:
            swap = {id(old): new for old, new in zip(tensors, inner, strict=True)}
            args, kwargs = replaced((args, kwargs), lambda leaf: swap.get(id(leaf), leaf))
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            call.raised = type(error).__name__
            raise
        call.result = me if me is not None else result
        if call.result is not None and not isinstance(call.result, torch.Tensor | int | float | str | tuple | list):
            self._made[id(call.result)] = number
        if call.with_grad and call.kind == "call" and not call.objects:
            return self._bounded(call, tensors, inner, result)
        return result

    def _take(self, call: Call, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """Write down what the call was given; its tensors, each once."""
        numbers: dict[int, int] = {}
        tensors: list[torch.Tensor] = []
        objects = list(call.objects)

        def taken(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                if id(leaf) not in numbers:
                    tensors.append(leaf)
                    numbers[id(leaf)] = call.inputs.add(leaf.detach().requires_grad_(leaf.requires_grad))
                return Place(numbers[id(leaf)])
            if id(leaf) in self._made:
                objects.append(self._made[id(leaf)])
                return Handle(self._made[id(leaf)])
            if isinstance(leaf, _Kernel | _Functions):
                return Named(leaf.name)
            return Named(self._own[id(leaf)]) if id(leaf) in self._own else leaf

        try:
            call.value = replaced((tuple(args), dict(kwargs)), taken)
            call.packed = pack(call.value)
        except Exception as error:  # noqa: BLE001 - pickle raises anything at all
            call.cannot = f"an argument cannot be passed on ({type(error).__name__}: {str(error)[:80]})"
        for made in dict.fromkeys(objects):
            self._take_state(call, made)
        call.objects = tuple(dict.fromkeys(objects))
        return tensors

    def _take_state(self, call: Call, made: int) -> None:
        module = self.calls[made].result
        if isinstance(module, torch.nn.Module):
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                call.states.append((made, name, call.inputs.add(tensor.detach())))

    def _bounded(self, call: Call, tensors: list[torch.Tensor], inner: list[torch.Tensor], result: Any) -> Any:
        """The result, with a gate between the test's graph and the call's: gradients are seen as they pass."""
        outputs: list[torch.Tensor] = []
        replaced(result, lambda leaf: outputs.append(leaf) if _differentiable(leaf) else None)
        if not outputs:
            return result
        wanted = [tensor for tensor in inner if tensor.requires_grad]

        def backward(grads: tuple[torch.Tensor, ...]) -> list[torch.Tensor | None]:
            # Expanded gradients (of a sum) have one element in memory, and kernels read them as if they had all.
            grads = tuple(grad.detach().contiguous() for grad in grads)
            if call.grads is None:
                call.grads = Pieces()
                for grad in grads:
                    call.grads.add(grad)
                call.grads.close()
            found = iter(torch.autograd.grad(outputs, wanted, grads, retain_graph=True, allow_unused=True))
            return [next(found) if tensor.requires_grad else None for tensor in inner]

        gated = iter(_Gate.apply(backward, len(tensors), *tensors, *(one.detach() for one in outputs)))  # type: ignore[no-untyped-call]
        return replaced(result, lambda leaf: next(gated) if _differentiable(leaf) else leaf)


class _Gate(torch.autograd.Function):
    """Hands results on unchanged, and gradients to `backward`."""

    @staticmethod
    def forward(ctx: Any, backward: Callable[..., Any], count: int, *tensors: torch.Tensor) -> Any:
        ctx.through, ctx.count = backward, count
        return tuple(tensor.view_as(tensor) for tensor in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return (None, None, *ctx.through(grads), *(None for _ in grads))


class _Kernel:
    """A kernel as the test sees it: launched over a grid."""

    def __init__(self, recorder: Recorder, name: str, kernel: Any) -> None:
        self.recorder, self.name, self.kernel = recorder, name, kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            fixed = grid(self._known(args, kwargs)) if callable(grid) else grid
            call = Call(self.name, kind="launch")
            given = (tuple(fixed) if isinstance(fixed, tuple | list) else (fixed,), *args)
            return self.recorder.record(call, lambda g, *a, **k: self.kernel[grid](*a, **k), given, kwargs)

        return launch

    def _known(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """What a grid function may ask for: the launch's arguments by name, and the first configuration's."""
        inner = self.kernel
        known: dict[str, Any] = {}
        while hasattr(inner, "fn") and not inspect.isfunction(inner):
            known |= inner.configs[0].all_kwargs() if getattr(inner, "configs", None) else {}
            inner = inner.fn
        return {**known, **dict(zip(inspect.signature(inner).parameters, args, strict=False)), **kwargs}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


class _Functions:
    """A class of static methods, such as an autograd function, as the test sees it."""

    def __init__(self, recorder: Recorder, name: str, base: type) -> None:
        self.recorder, self.name, self.base = recorder, name, base

    def __getattr__(self, key: str) -> Any:
        value = getattr(self.base, key)
        return self.recorder._recorded(f"{self.name}.{key}", value) if callable(value) else value


def _is_kernel(value: Any) -> bool:
    return hasattr(value, "fn") and hasattr(type(value), "__getitem__") and hasattr(value, "run")


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


@contextmanager
def _mixed_seeds(secret: int) -> Iterator[None]:
    """A seed written in the test is known to everybody; mixed with ours it is not.

    Only while the test runs: when calls are repeated, gold and candidate must draw the same numbers from one seed.
    """
    owners = ((torch, "manual_seed"), (torch.cuda, "manual_seed"), (torch.cuda, "manual_seed_all"))
    originals = [(owner, name, getattr(owner, name)) for owner, name in owners]
    for owner, name, original in originals:
        setattr(owner, name, lambda seed, original=original: original((int(seed) ^ (secret << 1)) % 2**63))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
