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
from pathlib import Path
from typing import Any

from autotriton.child import child_command, python_path
from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.emit import emit
from autotriton.propose.compiler.inductor.record import Capture, Request
from autotriton.types import Attempt, Candidate, Task

ENGINES = ("templates", "inductor")
_QUIET = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TRITON_INTERPRET": "0"}


class CompilerProposer:
    """One candidate per engine; none again once it has been tried."""

    def __init__(self, timeout_s: float = 180.0, engines: tuple[str, ...] = ENGINES) -> None:
        unknown = set(engines) - set(ENGINES)
        if unknown or not engines:
            raise ProposerError(
                f"unknown engine {', '.join(sorted(unknown))}", hint=f"choose from {', '.join(ENGINES)}"
            )
        self.timeout_s, self.engines = timeout_s, engines

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        """An engine that cannot express the task is passed over; when none can, the error says why for each."""
        tried = {attempt.candidate.code for attempt in history}
        failures: list[str] = []
        for engine in self.engines:
            try:
                candidate = _PROPOSE[engine](task, self.timeout_s)
            except ProposerError as error:
                failures.append(f"{engine}: {error.args[0]}")
                continue
            if candidate.code not in tried:
                yield candidate
        if len(failures) == len(self.engines):
            raise ProposerError("; ".join(failures) if len(failures) > 1 else failures[0].partition(": ")[2])


def _templates(task: Task, timeout_s: float) -> Candidate:
    found = _ask("autotriton.propose.compiler.templates.engine", task, {"title": task.id}, timeout_s)
    return Candidate(task_id=task.id, code=found["code"], proposer="compiler:templates", choices=found["choices"])


def _inductor(task: Task, timeout_s: float) -> Candidate:
    found = _ask("autotriton.propose.compiler.inductor.capture", task, {}, timeout_s)
    code = emit(Capture.model_validate(found), task.source, task.entry, task.id)
    return Candidate(task_id=task.id, code=code, proposer="compiler:inductor")


_PROPOSE: dict[str, Callable[[Task, float], Candidate]] = {"templates": _templates, "inductor": _inductor}


def _ask(module: str, task: Task, more: dict[str, str], timeout_s: float) -> dict[str, Any]:
    """What the engine's child process answers about the task."""
    request = Request(
        source=task.source, entry=task.entry, mode=task.mode, tf32=task.tf32, import_root=task.import_root
    )
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
    environment = {**os.environ, **_QUIET, "PYTHONPATH": python_path(), "TORCHINDUCTOR_CACHE_DIR": folder}
    command = child_command(module, str(question), str(answer))
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"was stopped after {timeout_s:g} s"
    last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"ended with code {ended.returncode} and no answer: {' '.join(last)}"
