"""Child of `test_compiled`: compiles what emitted files launch for an H200, where there is none, and reads the result.

Files run on meta tensors, so that launches are learned at full size and nothing is computed.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from autotriton.judge import targets
from autotriton.judge.launches import describe, launch_key

_ACCESS = re.compile(r"\b(ld|st)\.global[\w.:]*?(?:\.v(\d))?\.[bfus](\d+)\b")


def main(folder: Path) -> None:
    names = sorted(path.stem.removesuffix("_task") for path in folder.glob("*_task.py"))
    targets.warm_up(["sm_90"])
    print(json.dumps({name: compiled(folder, name) for name in names}))


def compiled(folder: Path, name: str) -> list[dict[str, Any]]:
    task, new = loaded(folder / f"{name}_task.py"), loaded(folder / f"{name}.py")
    launches = learned(task, new)
    functions = targets.jit_functions(new)
    return [measured(functions, launch) for launch in launches.values()]


def learned(task: Any, new: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **more: Any) -> None:
        names = [parameter.name for parameter in self.params]
        bound = dict(zip(names, args, strict=False)) | {key: value for key, value in more.items() if key in names}
        options = {key: value for key, value in more.items() if key not in names}
        constants = [parameter.name for parameter in self.params if parameter.is_constexpr]
        launch = describe(self.fn.__name__, names, constants, bound, options)
        found[launch_key(launch)] = launch

    before, JITFunction.run = JITFunction.run, run
    try:
        with torch.device("meta"), torch.no_grad():
            new.ModelNew()(*task.get_inputs())
    finally:
        JITFunction.run = before
    return found


def measured(functions: dict[str, list[Any]], launch: Any) -> dict[str, Any]:
    binary = targets._build(targets._find(functions, launch), launch, "sm_90", functions)
    numbers = targets._measure(binary, targets.TARGETS["sm_90"])
    widths: dict[str, list[int]] = {"ld": [], "st": []}
    for kind, count, bits in _ACCESS.findall(binary.asm["ptx"]):
        widths[kind].append(int(count or 1) * int(bits))
    return {
        "kernel": launch["kernel"],
        "spills": numbers.spills,
        "registers": numbers.registers,
        "error": numbers.error,
        "tensor_core": "wgmma" in binary.asm["ptx"] or "mma.sync" in binary.asm["ptx"],
        "paired": "s16x2" in binary.asm["ptx"],
        "steered": "tt.contiguity = dense<[1, 2]>" in binary.asm["ttir"],
        "loads": widths["ld"],
        "stores": widths["st"],
    }


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
