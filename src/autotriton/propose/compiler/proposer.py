"""`CompilerProposer`: kernels for a task without an LLM, as readable files. No torch is imported in this process.

Two engines, each in a child process with a deadline, for they execute the task's own source and private torch
interfaces: *templates* writes our own kernels, with sizes taken from the tensors; *inductor* cuts TorchInductor's out.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from autotriton import machine
from autotriton.child import child_command, python_path
from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.emit import emit
from autotriton.propose.compiler.inductor.record import CaptureRequest, Captures, Request
from autotriton.propose.compiler.inductor.variants import DEFAULT, VARIANTS
from autotriton.types import Attempt, Candidate, Task

ENGINES = ("templates", "inductor")
_CAPTURE = "autotriton.propose.compiler.inductor.capture"
_TEMPLATES = "autotriton.propose.compiler.templates.engine"
_RUNNING: set[subprocess.Popen[bytes]] = set()
"""Children at work, for whoever must end before they do."""
QUIET = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TRITON_INTERPRET": "0"}


class CompilerProposer:
    """The best guess of each engine, then the other variants of each; none again once it has been tried.

    On a machine with a GPU the inductor engine times its choices there, without asking whether anybody else is timing
    something: where a GPU is shared, `on_gpu=False` has it choose by rule as it does on a machine without one.
    """

    def __init__(self, timeout_s: float = 180.0, engines: tuple[str, ...] = ENGINES, on_gpu: bool = True) -> None:
        unknown = set(engines) - set(ENGINES)
        if unknown or not engines:
            raise ProposerError(
                f"unknown engine {', '.join(sorted(unknown))}", hint=f"choose from {', '.join(ENGINES)}"
            )
        self.timeout_s, self.engines, self.on_gpu = timeout_s, engines, on_gpu

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        """An engine that cannot express the task is passed over; when none can, the error says why for each."""
        tried = {attempt.candidate.code for attempt in history}
        failures: list[str] = []
        proposed = {engine: _PROPOSE[engine](task, self.timeout_s, self.on_gpu) for engine in self.engines}
        for most in (1, None):
            for engine in tuple(proposed):
                try:
                    for candidate in islice(proposed[engine], most):
                        if candidate.code not in tried:
                            tried.add(candidate.code)
                            yield candidate
                except ProposerError as error:
                    failures.append(f"{engine}: {error.args[0]}")
                    del proposed[engine]
        if len(failures) == len(self.engines):
            raise ProposerError("; ".join(failures) if len(failures) > 1 else failures[0].partition(": ")[2])

    def close(self) -> None:
        """Ends the children that other threads are waiting for."""
        for process in tuple(_RUNNING):
            process.kill()


def _templates(task: Task, timeout_s: float, on_gpu: bool) -> Iterator[Candidate]:
    """The engine's own choice first; other ways to write the task only once somebody asks for more."""
    found = _ask(_TEMPLATES, request_of(task), {"title": task.id, "more": "no"}, task, timeout_s)
    yield Candidate(task_id=task.id, code=found["code"], proposer="compiler:templates", choices=found["choices"])
    try:
        others = _ask(_TEMPLATES, request_of(task), {"title": task.id, "more": "yes"}, task, timeout_s)
    except ProposerError:  # the first choice stands
        return
    for name, other in others.items():
        proposer = f"compiler:templates:{name}"
        yield Candidate(task_id=task.id, code=other["code"], proposer=proposer, choices=other["choices"])


def _inductor(task: Task, timeout_s: float, on_gpu: bool) -> Iterator[Candidate]:
    """The best guess first; the other variants only once somebody asks for more. An error only if none can be used."""
    skip: tuple[str, ...] = ()
    failure: ProposerError | None = None
    proposed = 0
    for most in (1, len(VARIANTS)):
        request = CaptureRequest(
            **request_of(task).model_dump(), on_gpu=on_gpu, skip=skip, most=most, seconds=timeout_s
        )
        try:
            found = _captures(request, task, timeout_s)
        except ProposerError as error:
            failure = failure or error
            break
        skip = (*found.tried, *_pointless(found))
        for capture in found.captures:
            try:
                emitted = emit(capture, task.source, task.entry, task.id, found.notes)
            except ProposerError as error:
                failure = failure or error
                continue
            proposed += 1
            name = "compiler:inductor" + (f":{capture.variant}" if capture.variant != DEFAULT else "")
            yield Candidate(task_id=task.id, code=emitted.code, proposer=name, choices=emitted.choices)
    if failure is not None and not proposed:
        raise failure


def _pointless(found: Captures) -> list[str]:
    """Variants that cannot differ from the default, if that is known."""
    wrappers = [capture.wrapper for capture in found.captures if capture.variant == DEFAULT]
    return [variant.name for variant in VARIANTS if wrappers and not variant.applies(wrappers[0])]


def _captures(request: CaptureRequest, task: Task, timeout_s: float) -> Captures:
    """Where measuring on the GPU fails or takes too long, choices by rule are better than nothing."""
    try:
        answer = _ask(_CAPTURE, request, {}, task, timeout_s)
    except ProposerError:
        if not request.on_gpu or machine.describe().gpu is None:
            raise
        answer = _ask(_CAPTURE, request.model_copy(update={"on_gpu": False}), {}, task, timeout_s)
    return Captures.model_validate(answer)


_PROPOSE: dict[str, Callable[[Task, float, bool], Iterator[Candidate]]] = {
    "templates": _templates,
    "inductor": _inductor,
}


def request_of(task: Task) -> Request:
    return Request(source=task.source, entry=task.entry, mode=task.mode, tf32=task.tf32, import_root=task.import_root)


def _ask(module: str, request: Request, more: dict[str, str], task: Task, timeout_s: float) -> dict[str, Any]:
    """What the engine's child process answers about the task."""
    with tempfile.TemporaryDirectory(prefix="autotriton-") as folder:
        question, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        question.write_text(json.dumps({**request.model_dump(mode="json"), **more}), encoding="utf-8")
        error = _run_child(module, question, answer, folder, timeout_s)
        if not answer.exists():
            raise ProposerError(f"task {task.id} could not be captured: the capturing process {error}")
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in found:
        raise ProposerError(f"task {task.id} could not be captured: {found['error']}")
    return found


def _run_child(module: str, question: Path, answer: Path, folder: str, timeout_s: float) -> str:
    """What went wrong with the child, should it leave no answer."""
    environment = {**os.environ, **QUIET, "PYTHONPATH": python_path(), "TORCHINDUCTOR_CACHE_DIR": folder}
    command = child_command(module, str(question), str(answer))
    told = Path(folder, "stderr")  # a file, for a compiling process may outlive the child and would keep a pipe open
    with told.open("wb") as stderr:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=stderr)
        _RUNNING.add(process)
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return f"was stopped after {timeout_s:g} s"
        finally:  # after an interrupt too: the child does not outlive it
            process.kill()
            process.wait()
            _RUNNING.discard(process)
    last = told.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return f"ended with code {code} and no answer: {' '.join(last)}"
