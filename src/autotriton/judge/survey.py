"""Looks at tasks one after another, without any candidate: does it run, is it admitted, what does it cost, its graph.

A role of the fork server. Unlike a reference's, this process serves many tasks, so it keeps nothing between them; the
parent ends it when a task hangs. Whatever a task raises is an answer, never the end.
"""

from __future__ import annotations

import gc
import math
import socket
import sys
from typing import Any

import torch

from autotriton.errors import TaskError
from autotriton.judge.admission import admit
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.costs import cost
from autotriton.judge.graph import graph_of
from autotriton.judge.program import Inputs, Model, Program, flatten, randomise_state
from autotriton.types import Task

_MOST_ERRORS = 24


def main(control: socket.socket) -> None:
    channel = Channel(control)
    while True:
        try:
            request, _ = channel.receive()
        except ChannelError:
            return
        loaded = set(sys.modules)
        try:
            answer = outline(request) if request.get("outline") else survey(request)
        except TaskError as error:
            answer = {"refused": "raises", "detail": str(error)}
        except MemoryError:
            answer = {"refused": "memory", "detail": "the task does not fit into memory"}
        except Exception as error:  # noqa: BLE001 - task code runs here, and what it makes may break anything below
            answer = {"refused": "raises", "detail": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        if _context_is_lost():  # an assertion on the GPU: whatever is asked next in this process would fail as well
            channel.send({**answer, "last": True})
            return
        channel.send(answer)
        for name in [name for name in sys.modules if name not in loaded and name.startswith("autotriton_task_")]:
            del sys.modules[name]
        gc.collect()


def _context_is_lost() -> bool:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def survey(request: dict[str, Any]) -> dict[str, Any]:
    """Facts about the first of the texts that runs."""
    seed, device = int(request["seed"]), str(request["device"])
    chosen, program, model, inputs, errors = _first_that_runs(request, seed, device)
    if program is None or model is None or inputs is None:
        return {"refused": "raises", "detail": errors[0] if errors else "no text", "errors": errors}
    found = {"text": chosen, "errors": errors, "is_function": not isinstance(model, torch.nn.Module)}
    refused = _unusable(program, model, inputs)
    if refused:
        return {**found, "refused": refused[0], "detail": refused[1]}
    admission = admit(program, seed, max_runs=int(request["max_runs"]))
    if admission.random or admission.problems:
        kind = "random" if admission.random else "degenerate"
        return {**found, "refused": kind, "detail": "; ".join(admission.problems[:3])}
    randomise_state(model, seed)
    spent = cost(program, model, inputs)
    tensors = [leaf for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor)]
    return {
        **found,
        "notes": list(admission.notes),
        "flops": spent.flops,
        "bytes": spent.bytes,
        "elements": sum(tensor.numel() for tensor in tensors),
        "graph": graph_of(program, model, inputs),
    }


def outline(request: dict[str, Any]) -> dict[str, Any]:
    """The graph alone, over tensors without memory: a task made for a large GPU has one on any machine."""
    program = Program(Task.model_validate(request["task"]), "meta")
    return {"graph": graph_of(program, program.build(0), program.draw(0), spent=True)}


def _first_that_runs(
    request: dict[str, Any], seed: int, device: str
) -> tuple[int, Program | None, Model | None, Inputs | None, list[str]]:
    task = Task.model_validate(request["task"])
    errors: list[str] = []
    for number, text in enumerate((task.source, *request.get("alternatives", ()))):
        try:
            program = Program(task.model_copy(update={"source": text}), device)
            model, inputs = program.build(seed), program.draw(seed)
            program.run(model, inputs.clone())
            return number, program, model, inputs, errors
        except (TaskError, RecursionError) as error:
            if len(errors) < _MOST_ERRORS:
                errors.append(" ".join(str(error).split())[:300])
    return -1, None, None, None, errors


def _unusable(program: Program, model: Model, inputs: Inputs) -> tuple[str, str] | None:
    """Results that are mostly not finite prove nothing; results a comparison cannot take neither."""
    result = program.run(model, inputs.clone())
    leaves = [leaf for leaf in flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    if not leaves:
        return "no tensor", "the task returns no tensor"
    total = sum(leaf.numel() for leaf in leaves)
    finite = sum(int(torch.isfinite(leaf).sum()) for leaf in leaves if leaf.numel())
    if total == 0:
        return "empty", "every result is empty"
    if finite < total:
        return "not finite", f"{total - finite} of {total} results are not finite"
    largest = max(
        (float(leaf.detach().abs().max()) for leaf in leaves if leaf.numel() and leaf.is_floating_point()), default=0.0
    )
    return ("too large", f"results reach {largest:.3g}") if math.isfinite(largest) and largest > 1e8 else None
