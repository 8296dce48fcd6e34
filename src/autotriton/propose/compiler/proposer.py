"""`CompilerProposer`: Inductor's kernels for a task, as one readable file. No torch is imported in this process.

The capture executes the task's own source and private torch interfaces, so it runs in a child process with a deadline.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotriton.errors import ProposerError
from autotriton.propose.compiler.inductor.emit import emit
from autotriton.propose.compiler.inductor.record import Capture, Request
from autotriton.types import Attempt, Candidate, Task

NAME = "compiler:inductor"
_CHILD = "autotriton.propose.compiler.inductor.capture"
_QUIET = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TRITON_INTERPRET": "0"}


class CompilerProposer:
    """One candidate per task; none again once it has been tried."""

    def __init__(self, timeout_s: float = 120.0) -> None:
        self.timeout_s = timeout_s

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        code = emit(self._capture(task), task.source, task.entry, task.id)
        tried = {attempt.candidate.code for attempt in history}
        if code not in tried:
            yield Candidate(task_id=task.id, code=code, proposer=NAME)

    def _capture(self, task: Task) -> Capture:
        request = Request(
            source=task.source, entry=task.entry, mode=task.mode, tf32=task.tf32, import_root=task.import_root
        )
        with tempfile.TemporaryDirectory(prefix="autotriton-") as folder:
            question, answer = Path(folder, "request.json"), Path(folder, "answer.json")
            question.write_text(request.model_dump_json(), encoding="utf-8")
            error = _run_child(question, answer, folder, self.timeout_s)
            if not answer.exists():
                raise ProposerError(f"task {task.id} could not be captured: the capturing process {error}")
            text = answer.read_text(encoding="utf-8")
        found = json.loads(text)
        if "error" in found:
            raise ProposerError(f"task {task.id} could not be captured: {found['error']}")
        return Capture.model_validate(found)


def _run_child(question: Path, answer: Path, folder: str, timeout_s: float) -> str:
    """What went wrong with the child, should it leave no answer."""
    package = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **_QUIET, "PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": folder}
    command = [sys.executable, "-m", _CHILD, str(question), str(answer)]
    try:
        child = subprocess.run(command, env=environment, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"was stopped after {timeout_s:g} s"
    last = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"ended with code {child.returncode} and no answer: {' '.join(last)}"
