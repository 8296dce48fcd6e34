"""One problem of `templates_speed.py`, in a process of its own: runs the emitted file beside the task and times both.

Kernels are compiled first, from a run on meta tensors that launches nothing. Processes then share the GPU to run and
compare, and have it alone to time. What must stay true: nothing is launched outside of the gate.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_FLUSHED_BYTES = 256 << 20
"""More than the L2 cache of an H200, so that each timed run starts cold."""
_SPARE_BYTES = 1 << 30
"""A CUDA context, the flushed buffer and workspaces."""
_FIRST_ROUNDS = 2


class Gate:
    """Asks the parent for memory, for a share of the GPU or for all of it; what a dead process held comes back."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def _ask(self, kind: str, amount: int = 0) -> None:
        self._pipe.send((kind, amount))
        self._pipe.recv()

    def memory(self, wanted: int) -> None:
        """Kept until the process ends."""
        self._ask("memory", wanted)

    @contextlib.contextmanager
    def held(self, kind: str) -> Iterator[None]:
        """`shared` or `alone`."""
        self._ask(kind)
        try:
            yield
        finally:
            self._pipe.send(("free", 0))


@dataclass(frozen=True)
class Work:
    """What a process is asked for."""

    task: Path
    kernels: Path
    seconds: float
    compile: bool


def measure(work: Work, gate: Gate) -> dict[str, Any]:
    """Median times in milliseconds, and the relative rms error of the first output against eager's."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    task, new = _loaded(work.task, "task"), _loaded(work.kernels, "kernels")
    wanted = _bytes_needed(task)
    gate.memory(wanted)
    started = time.perf_counter()
    _compile_ahead(task, new)
    compiled_s = time.perf_counter() - started
    with gate.held("shared"):
        calls, error = _prepared(task, new, work.compile)
    with gate.held("alone"):
        times = _timed(calls, work.seconds)
    return {
        "ms": times["kernels"],
        "eager_ms": times["eager"],
        "compile_ms": times.get("compile"),
        "error": error,
        "compiled_s": round(compiled_s, 2),
        "memory_gb": round(wanted / 2**30, 1),
    }


def _loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _on_meta(task: Any, model: Callable[..., Any]) -> tuple[Any, list[Any]]:
    import torch

    with torch.device("meta"):
        return model(*task.get_init_inputs()), list(task.get_inputs())


def _bytes_needed(task: Any) -> int:
    """Inputs, parameters and some of the largest values on the way; more than is there where that cannot be told."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    largest = 0

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            found = [value.nbytes for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
            largest = max([largest, *found])
            return result

    try:
        model, inputs = _on_meta(task, task.Model)
        with torch.no_grad(), Watching():
            model(*inputs)
    except Exception:  # noqa: BLE001 - what cannot run on meta tensors gets the GPU's whole memory
        return 1 << 62
    given = [*model.parameters(), *model.buffers(), *(i for i in inputs if isinstance(i, torch.Tensor))]
    return sum(2 * tensor.nbytes for tensor in given) + 5 * largest + _FLUSHED_BYTES + _SPARE_BYTES


def _compile_ahead(task: Any, new: Any) -> None:
    """Compiles what the file launches without launching it; what fails here is compiled, or fails, when it runs."""
    import torch
    from triton.runtime.jit import JITFunction

    torch.cuda.init()
    run = JITFunction.run

    def warm(self: Any, *args: Any, **more: Any) -> Any:
        return run(self, *args, **{**more, "warmup": True})

    JITFunction.run = warm
    try:
        model, inputs = _on_meta(task, new.ModelNew)
        with torch.no_grad():
            model(*inputs)
    except Exception:  # noqa: BLE001 - see above
        return
    finally:
        JITFunction.run = run


def _prepared(task: Any, new: Any, compiled: bool) -> tuple[dict[str, Callable[[], Any]], float]:
    """What to time, after one run of each, and how far the outputs are apart."""
    import torch

    torch.manual_seed(0)
    with torch.device("cuda"):
        inputs = [i.cuda() if isinstance(i, torch.Tensor) else i for i in task.get_inputs()]
        reference, candidate = task.Model(*task.get_init_inputs()), new.ModelNew(*task.get_init_inputs())
    reference, candidate = reference.cuda(), candidate.cuda()
    candidate.load_state_dict(reference.state_dict())
    with torch.no_grad():
        expected = _first(reference(*inputs)).float()
        found = _first(candidate(*inputs)).float()
        if found.shape != expected.shape:
            raise ValueError(f"the result has shape {tuple(found.shape)}, eager's {tuple(expected.shape)}")
        difference = (found.sub_(expected)).square_().mean().sqrt()
        error = float(difference / expected.square_().mean().sqrt().clamp_min(1e-30))
        del expected, found, difference
        calls: dict[str, Callable[[], Any]] = {
            "eager": lambda: reference(*inputs),
            "kernels": lambda: candidate(*inputs),
        }
        if compiled:
            optimized = torch.compile(reference)
            calls["compile"] = lambda: optimized(*inputs)
            calls["compile"]()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return calls, error


def _first(value: Any) -> Any:
    while isinstance(value, tuple | list):
        value = value[0]
    return value


def _timed(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Medians over rounds in which each is run once, L2 cold; at least 3 rounds, at most 50."""
    import torch

    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds
    with torch.no_grad():
        for number in range(_FIRST_ROUNDS + 50):
            for name, call in calls.items():
                flushed.zero_()
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                stop.record()
                stop.synchronize()
                if number >= _FIRST_ROUNDS:
                    times[name].append(start.elapsed_time(stop))
            if number >= _FIRST_ROUNDS + 2 and time.perf_counter() > deadline:
                break
    return {name: statistics.median(found) for name, found in times.items()}
