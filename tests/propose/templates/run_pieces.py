"""Child of `single_piece`: runs every wrapper of a folder in the interpreter, bounds checked and memory poisoned."""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from autotriton.judge.interpreting import Interpreter


def main(folder: Path) -> None:
    witness = Interpreter("<candidate>")
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)  # fills `torch.empty` with NaN, so that what no kernel wrote is seen
    work = torch.load(folder / "jobs.pt", weights_only=False)
    results = {name: [run(folder / f"{name}.py", name, list(job)) for job in jobs] for name, jobs in work.items()}
    torch.save(results, folder / "results.pt")
    (folder / "launches.json").write_text(json.dumps(list(witness.launches.values())))


def run(path: Path, name: str, operands: list[Any]) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        with torch.no_grad():
            return getattr(module, name)(*operands)
    except Exception:  # noqa: BLE001 - the test shows it
        return traceback.format_exc()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
