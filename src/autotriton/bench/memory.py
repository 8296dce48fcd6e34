"""Whether a task fits into the GPU's memory, said before anything is proposed for it.

An estimate: it never sees what a forward pass makes in between. Tasks it lets through may still find too little memory;
the judge then says so. Calibrated on an H200 (139.8 GiB), where every task of KernelBench's levels 1 to 3 is let
through and was judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from autotriton.errors import UsageError
from autotriton.judge.channel import ChannelError
from autotriton.judge.processes import Processes
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task

_INPUTS, _OUTPUTS, _WEIGHTS = 8, 6, 4
"""Copies that are alive at once: the reference's and the candidate's, the fp64 oracle's, arenas. With outputs as large
as the inputs the judge was measured at up to 14 times the inputs, with small outputs at 8 times."""
_CONTEXTS_BYTES = 2 << 30
_LOOK_S = 20.0
"""A recurrent network's steps are traced one by one even without its tensors; such tasks are small."""
_UNITS = {"": 2**30, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Need:
    """Bytes of a task's tensors; None where that cannot be told beforehand."""

    inputs: int | None = None
    outputs: int | None = None
    weights: int | None = None

    @property
    def bytes(self) -> int:
        """GPU memory that judging it takes, at least."""
        parts = ((self.inputs, _INPUTS), (self.outputs, _OUTPUTS), (self.weights, _WEIGHTS))
        return sum((size or 0) * copies for size, copies in parts) + _CONTEXTS_BYTES


def parse_memory(text: str) -> int:
    """`24GiB`, `24GB`, `24g` and `24` are the same: graphics cards are sold in GB and hold GiB."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found["number"]) == 0:
        raise UsageError(f"--memory {text!r} is not an amount of memory", hint="write for example 24GiB")
    return int(float(found["number"]) * _UNITS[found["unit"].lower()])


def too_large(
    tasks: Iterable[Task], limit_bytes: int, look: Callable[[Task], Need], *, workers: int = 1
) -> dict[str, str]:
    """Tasks that do not fit, with the reason."""
    with ThreadPoolExecutor(workers, thread_name_prefix="size") as pool:
        asked = [(task, pool.submit(look, task)) for task in tasks]
        needs = [(task, future.result()) for task, future in asked]
    return {task.id: _reason(need, limit_bytes) for task, need in needs if need.bytes > limit_bytes}


def look(processes: Processes, task: Task) -> Need:
    """What the task's own source says about its tensors, asked in a process of the judge's."""
    readable = (task.import_root,) if task.import_root else ()
    limits = Limits(deadline_s=_LOOK_S, allow_processes=True, readable=readable)
    process = processes.server(interpret=False, readable=readable).spawn("reference", limits)
    try:
        process.channel.send({"do": "needs", "task": task.model_dump(mode="json")})
        answer = process.channel.receive(_LOOK_S)[0]
    except ChannelError:
        return Need()
    finally:
        process.end()
    return Need(**{name: answer.get(name) for name in ("inputs", "outputs", "weights")})


def _reason(need: Need, limit_bytes: int) -> str:
    sizes = [("inputs", need.inputs), ("outputs", need.outputs), ("weights", need.weights)]
    named = ", ".join(f"{name} of {size / 2**30:.1f} GiB" for name, size in sizes if size and size >= 2**27)
    return f"needs about {need.bytes / 2**30:.0f} GiB of GPU memory ({named}) and has {limit_bytes / 2**30:.0f}"
