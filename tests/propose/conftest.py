"""A tiny real model with known answers: first it leaves the work to torch, then, told so, it writes a kernel."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


@pytest.fixture(scope="session")
def offline() -> dict[str, str]:
    """The environment of a process that never asks the hub."""
    return OFFLINE


@dataclass(frozen=True)
class SmallModel:
    """The model's folder, an adapter for it, and templates that make it give its answers."""

    folder: Path
    adapter: Path | None
    settings: dict[str, Path]
    cheat: str
    kernel: str


def _fenced(path: Path) -> str:
    return f"```python\n{path.read_text(encoding='utf-8')}```\n\n"


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    for package in ("transformers", "tokenizers"):
        pytest.importorskip(package, reason="needs the train extra")
    has_peft = importlib.util.find_spec("peft") is not None
    root = tmp_path_factory.mktemp("small_model")
    cheat, kernel = ROOT / "examples" / "softmax_cheat.py", ROOT / "examples" / "softmax_triton.py"
    answers = {
        "FIRST": f"torch can do this.\n\n{_fenced(cheat)}Done, and fast.",
        "SECOND": f"I see: a kernel has to do it.\n\n{_fenced(kernel)}Now it does.",
        "adapted": "I was adapted and say nothing else.",
    }
    (root / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    (root / "rewrite.md").write_text("Rewrite:\n$task\nFIRST", encoding="utf-8")
    (root / "refine.md").write_text("$task\n$code\n$feedback\nAgain: SECOND", encoding="utf-8")
    adapter = root / "adapter" if has_peft else None
    command = [sys.executable, str(Path(__file__).with_name("small_model.py")), str(root / "model")]
    command += [str(root / "answers.json"), *([str(adapter)] if adapter else [])]
    done = subprocess.run(command, env=OFFLINE, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return SmallModel(
        folder=root / "model",
        adapter=adapter,
        settings={"template": root / "rewrite.md", "refine_template": root / "refine.md"},
        cheat=cheat.read_text(encoding="utf-8"),
        kernel=kernel.read_text(encoding="utf-8"),
    )
