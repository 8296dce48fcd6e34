"""Whether a task fits into the GPU's memory, said before anything is proposed for it.

The judge's own bound (docs/judging.md) decides. A task whose size cannot be told without running it is let through; the
judge says so if it then finds too little memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from autotriton.errors import UsageError
from autotriton.judge.channel import ChannelError
from autotriton.judge.processes import Processes
from autotriton.judge.references import gpu_bytes_needed
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task

_LOOK_S = 20.0
"""A recurrent network's steps are traced one by one even without its tensors; such tasks are small."""
_UNITS = {"": 2**30, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Need:
    """Bytes of a task's tensors; None where that cannot be told beforehand."""

    inputs: int | None = None
    outputs: int | None = None
    peak: int | None = None
    """Of one forward pass: inputs, parameters, outputs and whatever is alive in between."""
    weights: int = 0

    @property
    def bytes(self) -> int:
        """GPU memory that judging it takes; nothing where that is not known."""
        size = {
            "bytes": self.inputs,
            "output_bytes": self.outputs,
            "peak_bytes": self.peak,
            "state_bytes": self.weights,
        }
        return gpu_bytes_needed(size) or 0


def parse_memory(text: str) -> int:
    """`24GiB`, `24GB`, `24g` and `24` are the same: graphics cards are sold in GB and hold GiB."""
    found = _SIZE.fullmatch(text.strip())
    amount = 0 if found is None else int(float(found["number"]) * _UNITS[found["unit"].lower()])
    if amount == 0:
        raise UsageError(f"--memory {text!r} is not an amount of memory", hint="write for example 24GiB")
    return amount


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
    process = processes.references_server(readable).spawn("reference", limits)
    try:
        process.channel.send({"do": "size", "task": task.model_dump(mode="json")})
        answer = process.channel.receive(_LOOK_S)[0]
    except ChannelError:
        return Need()
    finally:
        process.end()
    return Need(
        inputs=answer.get("bytes"),
        outputs=answer.get("output_bytes"),
        peak=answer.get("peak_bytes"),
        weights=answer.get("state_bytes") or 0,
    )


def _reason(need: Need, limit_bytes: int) -> str:
    sizes = [
        ("inputs of", need.inputs),
        ("outputs of", need.outputs),
        ("weights of", need.weights),
        ("a forward pass of", need.peak),
    ]
    named = ", ".join(f"{name} {size / 2**30:.1f} GiB" for name, size in sizes if size and size >= 2**27)
    about = f" ({named})" if named else ""
    return f"needs about {need.bytes / 2**30:.0f} GiB of GPU memory{about} and has {round(limit_bytes / 2**30, 1):g}"
