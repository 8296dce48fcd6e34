"""Writes a verified kernel as a small installable package around a custom operator."""

from __future__ import annotations

import json
import keyword
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from autotriton.child import child_command, python_path
from autotriton.errors import ProposerError, UsageError
from autotriton.export.facts import Facts
from autotriton.export.models import VALUES, write_model
from autotriton.export.operators import write_operators
from autotriton.types import Candidate, Task, Verdict

_CHILD = "autotriton.export.inspecting"
_TAKEN = frozenset(("aten", "prim", "prims", "torch", "triton", "autotriton", "test", "tests", "numpy", "quantized"))
_TIMEOUT_S = 300.0


def export_package(
    task: Task,
    candidate: Candidate,
    verdict: Verdict,
    out_dir: Path,
    name: str,
    *,
    values: Mapping[str, Any] | None = None,
) -> Path:
    """The folder of a package `name` with the operator `name::forward`. Raises before anything is written.

    `values` are tensors by name that the package's module gets when it is constructed: those a `state_dict` lacks.
    """
    _check(task, verdict, Path(out_dir), name)
    facts = _learn(task, candidate.code)
    files = _files(task, candidate, verdict, facts, name, with_values=bool(values))
    for path, text in files.items():
        target = Path(out_dir, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    if values:
        import torch

        torch.save(dict(values), Path(out_dir, name, VALUES))
    return Path(out_dir)


def package_name(title: str) -> str:
    """A name for the package of a task: `12_Gemm_Multiply` is `op_12_gemm_multiply`."""
    name = re.sub(r"\W+", "_", title).strip("_").lower() or "kernels"
    name = f"op_{name}" if name[0].isdigit() else name
    return f"{name}_op" if keyword.iskeyword(name) or name in _TAKEN else name


def _check(task: Task, verdict: Verdict, out_dir: Path, name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower() or name in _TAKEN:
        raise UsageError(
            f"{name!r} cannot be the name of the package and its operators",
            hint="lower-case letters, digits and underscores, such as fused_mlp",
        )
    if not verdict.accepted:
        raise UsageError(
            f"the kernel for {task.id} was not accepted: {verdict.message}", hint="export verified kernels"
        )
    if task.import_root is not None:
        raise UsageError(
            f"the task {task.id} imports files that lie beside it, which a package cannot carry",
            hint="put what it needs into the task file itself",
        )
    if (
        out_dir.exists()
        and (not out_dir.is_dir() or any(out_dir.iterdir()))
        and not (out_dir / name / "op.py").exists()
    ):
        raise UsageError(f"{out_dir} is not empty", hint="name a new folder")


def _learn(task: Task, code: str) -> Facts:
    """What the operator has to look like, found out in a child process: it runs the task's own source."""
    with tempfile.TemporaryDirectory(prefix="autotriton-") as folder:
        question, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        question.write_text(json.dumps({"task": task.model_dump(mode="json"), "code": code}), encoding="utf-8")
        command = child_command(_CHILD, str(question), str(answer))
        environment = {**os.environ, "PYTHONPATH": python_path()}
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ProposerError(f"task {task.id} could not be exported: not understood in {_TIMEOUT_S:g} s") from None
        if not answer.exists():
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise ProposerError(f"task {task.id} could not be exported: {' '.join(last)}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in found:
        raise ProposerError(f"task {task.id} could not be exported: {found['error']}")
    return Facts.model_validate(found)


def _files(
    task: Task, candidate: Candidate, verdict: Verdict, facts: Facts, name: str, *, with_values: bool
) -> dict[str, str]:
    entry = task.entry if facts.is_function else "Model"
    filled = {
        "name": name,
        "title": task.id,
        "entry": entry,
        "arguments": ", ".join(a.name for a in facts.inputs),
        "verdict": f"{verdict.outcome} ({verdict.policy}, up to {verdict.tier}): {verdict.message}",
        "kernels": ", ".join(f"`{kernel.name}`" for kernel in verdict.kernels) or "none",
        "mode": task.mode.value,
        "made_for": f"{task.mode} mode; in the other mode the reference runs" if facts.mode_matters else "both modes",
        "gradients": _gradients(facts),
        "changes": ", ".join(f"`{n}`" for n in (*facts.changed, *facts.changed_inputs)) or "nothing",
        "signature": ", ".join(f"{a.type} {a.name}" for a in facts.inputs),
        "differentiable": repr(facts.no_gradients is None and not facts.changed_inputs),
        "is_function": repr(facts.is_function),
        "reference_entry": task.entry,
        "state": ", ".join(held.expression.replace("self", "model", 1) for held in facts.state),
    }
    return {
        "pyproject.toml": _template("pyproject.toml.in", filled),
        "README.md": _template("README.md.in", filled),
        "verdict.json": verdict.model_dump_json(indent=1) + "\n",
        f"{name}/__init__.py": _template("init.py.in", filled),
        f"{name}/kernels.py": candidate.code,
        f"{name}/reference.py": task.source,
        f"{name}/binding.py": _read("binding.py"),
        f"{name}/op.py": write_operators(task, facts, name),
        f"{name}/model.py": write_model(task, facts, with_values=with_values),
        f"tests/test_{name}.py": _template("test.py.in", filled),
    }


def _gradients(facts: Facts) -> str:
    if facts.changed_inputs:
        return "none, because forward changes its inputs"
    if facts.no_gradients is not None:
        return f"none ({facts.no_gradients}); backward raises an error that says so"
    return "by running the reference again in backward"


def _template(file: str, filled: dict[str, str]) -> str:
    return Template(_read(file)).substitute(filled)


def _read(file: str) -> str:
    return resources.files("autotriton.export.templates").joinpath(file).read_text(encoding="utf-8")
