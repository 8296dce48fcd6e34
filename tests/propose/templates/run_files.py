"""Child of `whole_file`: runs every emitted file of a folder beside its task, bounds checked and memory poisoned."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from autotriton.judge.interpreting import Interpreter


def main(folder: Path) -> None:
    Interpreter("<candidate>")
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)  # fills `torch.empty` with NaN, so that what no kernel wrote is seen
    jobs = torch.load(folder / "jobs.pt", weights_only=False)
    torch.save({name: run(folder, name, drawn) for name, drawn in jobs.items()}, folder / "results.pt")


def run(folder: Path, name: str, drawn: list[str]) -> Any:
    try:
        task, new = loaded(folder / f"{name}_task.py"), loaded(folder / f"{name}.py")
        torch.manual_seed(1)
        reference, candidate = task.Model(), new.ModelNew()
        candidate.load_state_dict(reference.state_dict())
        found = []
        for text in drawn:
            inputs = eval(f"[{text}]", {"torch": torch})
            with torch.no_grad():
                found.append((candidate(*inputs), reference(*inputs)))
        return found
    except Exception:  # noqa: BLE001 - the test shows it
        return traceback.format_exc()


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
