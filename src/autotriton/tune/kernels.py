"""Triton's launches in the worker, diverted: collected to be compiled elsewhere, or loaded to see what they need.

Uses three private names of Triton, the same from 3.6 to 3.9: `JITFunction.run`, `JITFunction._do_compile` and
`CompiledKernel._init_handles`. A wrapper is called as always; only what happens at `kernel[grid](...)` changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from triton.runtime.jit import JITFunction, KernelInterface


@dataclass(frozen=True)
class Job:
    """One kernel to be compiled, in what `triton.compile` takes; jit functions among the constants go by their name."""

    key: tuple[str, str]
    """Function and specialisation: equal for launches that share a binary."""
    signature: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    options: dict[str, Any]


@dataclass(frozen=True)
class JitName:
    """A jit function where it is passed to a kernel as a constant."""

    name: str


@dataclass(frozen=True)
class Loaded:
    """What the driver says of a kernel it has loaded."""

    registers: int
    spills: int
    shared_bytes: int


@contextmanager
def collecting() -> Iterator[list[Job]]:
    """While open nothing is launched or compiled; what would be is listed, as often as it is launched."""
    jobs: list[Job] = []

    def collect(
        self: Any, key: str, signature: Any, device: Any, constexprs: Any, options: Any, attrs: Any, *_: Any
    ) -> None:
        constants = {path: _named(value) for path, value in constexprs.items()}
        jobs.append(Job((name_of(self), str(key)), signature, constants, attrs, dict(vars(options))))

    original = JITFunction._do_compile
    JITFunction._do_compile = collect
    try:
        with _diverted(lambda kernel: None):
            yield jobs
    finally:
        JITFunction._do_compile = original


@contextmanager
def loading() -> Iterator[list[Loaded]]:
    """While open kernels are compiled (or found compiled) and loaded but not launched. What does not fit raises."""
    loaded: list[Loaded] = []

    def load(kernel: Any) -> None:
        kernel._init_handles()
        loaded.append(Loaded(int(kernel.n_regs), int(kernel.n_spills), int(kernel.metadata.shared)))

    with _diverted(load):
        yield loaded


@contextmanager
def _diverted(take: Callable[[Any], None]) -> Iterator[None]:
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel = original(self, *args, grid=grid, warmup=True, **kwargs)
        if kernel is not None:
            take(kernel)
        return kernel

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original


def functions(module: ModuleType) -> dict[str, Any]:
    """The module's jit functions by their names, out of decorators around them."""
    found = {}
    for item in vars(module).values():
        while isinstance(item, KernelInterface) and not isinstance(item, JITFunction):
            item = vars(item).get("fn")
        if isinstance(item, JITFunction):
            found[name_of(item)] = item
    return found


def name_of(function: Any) -> str:
    return f"{function.fn.__module__}:{function.fn.__qualname__}"


def _named(value: Any) -> Any:
    return JitName(name_of(value)) if isinstance(value, JITFunction) else value
