"""Single-operator tasks out of PyTorch's own operator database: the shapes and edge cases PyTorch tests.

The database lives in torch and makes tensors, so a child process reads it and hands back task texts; this process
imports no torch. Samples are deduplicated by what they call: operator, shapes, types and arguments.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

from autotriton.child import child_command, python_path
from autotriton.data.records import Draft, SourceKind
from autotriton.errors import PrerequisiteError
from autotriton.types import Task

_TIMEOUT_S = 600.0


def drafts(
    *,
    per_operator: int = 6,
    dtypes: tuple[str, ...] = ("float32",),
    only: tuple[str, ...] = (),
    seed: int = 0,
    timeout_s: float = _TIMEOUT_S,
) -> Iterator[Draft]:
    """At most `per_operator` different samples of each operator and type; `only` names operators."""
    request = json.dumps({"per_operator": per_operator, "dtypes": dtypes, "only": only, "seed": seed})
    environment = {**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            child_command("autotriton.data.opinfo_samples"),
            input=request,
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PrerequisiteError(f"PyTorch's operator database took longer than {timeout_s:g} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PrerequisiteError(
            f"PyTorch's operator database cannot be read: {said[:300]}",
            hint="torch 2.11 to 2.13 with numpy has it",
        )
    version = str(json.loads(lines[0])["torch"])
    for line in lines[1:]:
        found = json.loads(line)
        task = Task(id=f"opinfo-{found['id']}", source=found["source"], entry="op_task")
        origin = f"torch {version} op_db {found['operator']} sample {found['sample']}"
        yield Draft(task=task, kind=SourceKind.OPINFO, origin=origin, licence="BSD-3-Clause", ops=(found["operator"],))
